#include "sameness.hpp"

#include "known.hpp"
#include "undone.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>

namespace coalesce {

using namespace llvm;

namespace {

sameness differs(Instruction const& why, scope same_in = scope::thread) { return {same_in, &why}; }

bool is_all_ones(Value const* v) {
  auto const* constant = dyn_cast<ConstantInt>(v);
  return constant != nullptr && constant->isMinusOne();
}

// The name of an intrinsic as Clang's headers spell it: `__nvvm_barrier0` for `llvm.nvvm.barrier0`.
std::string name_of_intrinsic(Function const& f) {
  std::string name = f.getName().str();
  if (name.rfind("llvm.nvvm.", 0) != 0) return name;
  name.replace(0, 5, "__");
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

SmallVector<Value const*> objects_behind(Value const* pointer) {
  SmallVector<Value const*> objects;
  getUnderlyingObjects(pointer, objects, nullptr, 0);
  return objects;
}

}  // namespace

namespace {

// Whether a call only reads what the argument points to, and does not keep the pointer.
bool reads_only(callee const& c, CallBase const& call, unsigned argument) {
  bool const constant = c.is != nullptr && !c.is->users && c.is->reads.count(argument) != 0;
  return call.isByValArgument(argument) || constant || c.name == "printf";
}

}  // namespace

callee callee_of(lowered const& code, CallBase const& call) {
  callee c;
  auto const* f = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
  if (f == nullptr) return c;
  if (f->isIntrinsic()) {
    c.name = name_of_intrinsic(*f);
    return c;
  }
  c.defined = !f->isDeclaration();
  auto const known = code.outsides.find(f->getName().str());
  // Clang turns printf into vprintf, which the program does not declare.
  if (known == code.outsides.end() && f->getName() == "vprintf") c.name = "printf";
  if (known == code.outsides.end() || c.defined) return c;
  c.name = known->second.name;
  c.is = &known->second;
  if (known->second.allocates && call.arg_size() != 0) {
    auto const* promise = dyn_cast<ConstantInt>(call.getArgOperand(call.arg_size() - 1));
    c.promises = promise == nullptr || !promise->isZero();
  }
  return c;
}

bool is_barrier(callee const& c, CallBase const& call, scope level) {
  if (is_meeting_of_ranks(c.name)) return true;
  if (level == scope::grid) return false;
  auto const effect = effect_of(c.name);
  if (effect == effect::barrier || (effect == effect::uniform_in_block && c.name.find("sreg") == std::string::npos)) return true;
  bool const of_warp = c.name == "__syncwarp" || c.name == "__nvvm_bar_warp_sync";
  return level == scope::warp && of_warp && call.arg_size() == 1 && is_all_ones(call.getArgOperand(0));
}

same_values::same_values(lowered const& code, Function& f, branches const& where) : code_{code}, f_{f}, where_{where}, dominators_{f} {
  find_variables();
  find_writers();
  // Ends: raise() moves each value only towards scope::thread, in finitely many steps.
  do {
    changed_ = false;
    for (auto const& block : f_) {
      for (auto const& i : block) visit(i);
    }
  } while (changed_);
}

sameness same_values::of(Value const* v) const {
  auto const found = values_.find(v);
  return found == values_.end() ? sameness{} : found->second;
}

sameness same_values::control(BasicBlock const& block) const {
  auto const found = control_.find(&block);
  return found == control_.end() ? sameness{} : found->second;
}

std::vector<Value const*> same_values::variables_behind(Value const* pointer, bool& only) const {
  std::vector<Value const*> found;
  only = true;
  for (auto const* object : objects_behind(pointer)) {
    if (contents_.count(object) != 0) {
      found.push_back(object);
    } else {
      only = false;
    }
  }
  return found;
}

// ---- variables

void same_values::find_variables() {
  for (auto const& argument : f_.args()) {
    if (argument.hasByValAttr() && stays_here(&argument)) contents_[&argument] = {};
  }
  for (auto const& block : f_) {
    for (auto const& i : block) {
      if (isa<AllocaInst>(i) && stays_here(&i)) contents_[&i] = {};
      if (auto const* store = dyn_cast<StoreInst>(&i)) note_written(store->getPointerOperand());
      if (auto const* update = dyn_cast<AtomicRMWInst>(&i)) note_written(update->getPointerOperand());
      if (auto const* update = dyn_cast<AtomicCmpXchgInst>(&i)) note_written(update->getPointerOperand());
      auto const* call = dyn_cast<CallBase>(&i);
      if (call == nullptr || i.isLifetimeStartOrEnd()) continue;
      for (auto const& operand : call->args()) {
        if (operand->getType()->isPointerTy()) note_written(operand);
      }
    }
  }
}

// Finds the instructions that may write each variable.
void same_values::find_writers() {
  for (auto const& block : f_) {
    for (auto const& i : block) {
      std::vector<Value const*> pointers;
      if (auto const* store = dyn_cast<StoreInst>(&i)) pointers.push_back(store->getPointerOperand());
      auto const* call = dyn_cast<CallBase>(&i);
      for (unsigned k = 0; call != nullptr && !i.isLifetimeStartOrEnd() && k < call->arg_size(); ++k) {
        auto const* argument = call->getArgOperand(k);
        if (argument->getType()->isPointerTy() && !reads_only(callee_of(code_, *call), *call, k)) pointers.push_back(argument);
      }
      bool only = false;
      for (auto const* pointer : pointers) {
        for (auto const* variable : variables_behind(pointer, only)) writers_[variable].push_back(&i);
      }
    }
  }
}

namespace {

// Whether an instruction writes all of a variable at once, and writes nothing to it later.
bool defines(lowered const& code, Instruction const& i, AllocaInst const& variable) {
  auto const& layout = variable.getModule()->getDataLayout();
  auto const size = variable.getAllocationSize(layout);
  if (!size) return false;
  if (auto const* store = dyn_cast<StoreInst>(&i))
    return store->getPointerOperand() == &variable && layout.getTypeStoreSize(store->getValueOperand()->getType()) == *size;
  auto const* call = dyn_cast<CallBase>(&i);
  auto const name = call == nullptr ? "" : callee_of(code, *call).name;
  if (effect_of(name) != effect::same_in_communicator) return false;
  unsigned const out = name == "MPI_Bcast" ? 0 : 1;
  auto const* count = dyn_cast<ConstantInt>(call->getArgOperand(out + 1));
  return call->getArgOperand(out) == &variable && count != nullptr && count->isOne() && variable.getAllocatedType()->isSingleValueType();
}

// Whether a path leads from `from` to `to` without passing `wall`.
bool leads_to(Instruction const& from, Instruction const& to, Instruction const& wall) {
  auto const passes = [&](BasicBlock::const_iterator at, BasicBlock const& block, bool& stopped) {
    for (; at != block.end(); ++at) {
      if (&*at == &to) return true;
      if (&*at == &wall) return stopped = true, false;
    }
    return false;
  };
  bool stopped = false;
  if (passes(std::next(from.getIterator()), *from.getParent(), stopped)) return true;
  if (stopped) return false;
  std::set<BasicBlock const*> seen;
  std::vector<BasicBlock const*> open{succ_begin(from.getParent()), succ_end(from.getParent())};
  while (!open.empty()) {
    auto const* block = open.back();
    open.pop_back();
    if (!seen.insert(block).second) continue;
    stopped = false;
    if (passes(block->begin(), *block, stopped)) return true;
    if (!stopped) open.insert(open.end(), succ_begin(block), succ_end(block));
  }
  return false;
}

}  // namespace

// The only instruction that can have written the value that `variable` has at `at`. Null if several can, or if a call may keep its address.
Instruction const* same_values::only_definition(Value const* variable, Instruction const& at) const {
  auto const* local = dyn_cast<AllocaInst>(variable);
  auto const writers = writers_.find(variable);
  if (local == nullptr || writers == writers_.end()) return nullptr;
  for (auto const* i : writers->second) {
    auto const* call = dyn_cast<CallBase>(i);
    if (call != nullptr && !isa<MemIntrinsic>(i) && !effect_of(callee_of(code_, *call).name))
      return nullptr;  // the call may keep the address
  }
  for (auto const* definition : writers->second) {
    if (!defines(code_, *definition, *local) || !dominators_.dominates(definition, &at)) continue;
    bool last = true;
    for (auto const* other : writers->second)
      last = last && (other == definition || undone("later writes") || !leads_to(*other, at, *definition));
    if (last) return definition;
  }
  return nullptr;
}

sameness same_values::written_by(Instruction const& definition) const {
  sameness v = control(*definition.getParent());
  if (auto const* store = dyn_cast<StoreInst>(&definition)) {
    v.add(of(store->getValueOperand()));
    return v;
  }
  auto const& call = cast<CallBase>(definition);
  unsigned const out = callee_of(code_, call).name == "MPI_Bcast" ? 0 : 1;
  v.add(of(call.getArgOperand(call.arg_size() - 1)));
  v.add(of(call.getArgOperand(out + 1)));
  return v;
}

void same_values::note_written(Value const* pointer) {
  for (auto const* object : objects_behind(pointer)) written_.insert(object);
}

// Whether every use of a variable's address is visible in the function.
bool same_values::stays_here(Value const* variable) {
  std::vector<Value const*> open{variable};
  std::set<Value const*> seen;
  while (!open.empty()) {
    auto const* pointer = open.back();
    open.pop_back();
    if (!seen.insert(pointer).second) continue;
    for (auto const* user : pointer->users()) {
      if (isa<GetElementPtrInst, BitCastInst, AddrSpaceCastInst, PHINode, SelectInst>(user)) {
        open.push_back(user);
      } else if (auto const* store = dyn_cast<StoreInst>(user)) {
        if (store->getValueOperand() == pointer && !undone("kept addresses")) return false;
      } else if (!isa<LoadInst, ICmpInst, CallBase>(user)) {
        return false;
      }
    }
  }
  return true;
}

// ---- values

void same_values::raise(std::map<Value const*, sameness>& in, Value const* of, sameness const& to) {
  if (to.same_in == scope::grid) return;
  auto& now = in[of];
  if (to.same_in <= now.same_in) return;
  now = to;
  changed_ = true;
}

sameness same_values::operands_of(Instruction const& i) const {
  sameness v;
  for (auto const& operand : i.operands()) v.add(of(operand));
  return v;
}

// The sameness of a value that is read through `pointer`.
sameness same_values::loaded(Value const* pointer, Instruction const& i, bool is_volatile) const {
  sameness v = of(pointer);
  for (auto const* object : objects_behind(pointer)) {
    if (auto const variable = contents_.find(object); variable != contents_.end()) {
      auto const* definition = only_definition(object, i);
      v.add(definition == nullptr ? variable->second : written_by(*definition));
      v.add(control(*i.getParent()));
      continue;
    }
    auto const* global = dyn_cast<GlobalVariable>(object);
    auto const special = global == nullptr ? std::nullopt : scope_of_variable(global->getName());
    if (special) {
      v.add(differs(i, *special));
      continue;
    }
    constexpr unsigned shared = 3, constant = 4;  // address spaces
    if (!is_volatile && global != nullptr && (global->isConstant() || global->getAddressSpace() == constant)) continue;
    // All threads that reach this load read the same value, unless one of them writes at the same time.
    if (!is_volatile && global != nullptr && global->getAddressSpace() == shared) {
      v.add(differs(i, scope::block));
      v.add(control(*i.getParent()));
      continue;
    }
    auto const* argument = dyn_cast<Argument>(object);
    if (!is_volatile && argument != nullptr && argument->hasNoAliasAttr() && written_.count(argument) == 0) continue;
    if (!undone("memory of all")) v.add(differs(i));
  }
  return v;
}

void same_values::write(Value const* pointer, sameness v, Instruction const& at) {
  if (!undone("written places")) v.add(of(pointer));
  if (!undone("conditional writes")) v.add(control(*at.getParent()));
  for (auto const* object : objects_behind(pointer)) {
    if (contents_.count(object) != 0) raise(contents_, object, v);
    if (undone("aliases")) break;
  }
}

void same_values::visit(Instruction const& i) {
  sameness v;
  if (isa<PHINode>(i)) {
    v = operands_of(i);
    if (auto const joined = joined_.find(i.getParent()); joined != joined_.end()) v.add(joined->second);
  } else if (auto const* load = dyn_cast<LoadInst>(&i)) {
    v = load->isAtomic() ? differs(i) : loaded(load->getPointerOperand(), i, load->isVolatile());
  } else if (auto const* store = dyn_cast<StoreInst>(&i)) {
    write(store->getPointerOperand(), of(store->getValueOperand()), i);
  } else if (auto const* call = dyn_cast<CallBase>(&i)) {
    v = called(*call);
  } else if (i.isTerminator()) {
    branch(i);
  } else if (isa<AllocaInst>(i) || isa<FenceInst>(i) || (isa<AtomicRMWInst, AtomicCmpXchgInst>(i) && undone("atomics"))) {
    v = {};
  } else if (isa<PtrToIntInst>(i)) {
    v = operands_of(i);
    for (auto const* object : objects_behind(i.getOperand(0))) {
      if (isa<AllocaInst>(object)) v.add(differs(i));  // each thread has a variable of its own
    }
  } else if (isa<BinaryOperator, UnaryOperator, CmpInst, CastInst, GetElementPtrInst, SelectInst, ExtractValueInst, InsertValueInst,
                 ExtractElementInst, InsertElementInst, ShuffleVectorInst, FreezeInst>(i)) {
    v = operands_of(i);
  } else {
    v = differs(i);
  }
  raise(values_, &i, v);
}

// Records the effect of a branch on the code behind it, if threads may take different ways.
void same_values::branch(Instruction const& i) {
  if (i.getNumSuccessors() < 2) return;
  sameness condition = operands_of(i);
  if (!isa<BranchInst, SwitchInst>(i)) condition = differs(i);
  if (condition.same_in == scope::grid) return;
  condition.add(control(*i.getParent()));
  auto const& reach = where_.of(*i.getParent());
  for (auto const* block : reach.reached) {
    raise(control_, block, condition);
    if (!undone("values of loops")) raise(joined_, block, condition);
  }
  if (reach.together != nullptr && !undone("joined values")) raise(joined_, reach.together, condition);
}

// ---- calls

sameness same_values::called(CallBase const& call) {
  if (isa<DbgInfoIntrinsic>(call) || call.isLifetimeStartOrEnd()) return {};
  if (auto const* set = dyn_cast<MemSetInst>(&call)) {
    sameness v = of(set->getValue());
    v.add(of(set->getLength()));
    write(set->getDest(), v, call);
    return {};
  }
  if (auto const* copy = dyn_cast<MemTransferInst>(&call)) {
    sameness v = loaded(copy->getSource(), call, copy->isVolatile());
    v.add(of(copy->getLength()));
    write(copy->getDest(), v, call);
    return {};
  }
  auto const c = callee_of(code_, call);
  if (call.getCalledFunction() != nullptr && !c.defined && !c.name.empty()) return called_outside(call, c);
  for (auto const& argument : call.args()) {
    if (argument->getType()->isPointerTy()) write(argument, differs(call), call);
  }
  return differs(call);
}

sameness same_values::called_outside(CallBase const& call, callee const& c) {
  sameness all;  // of the arguments
  for (auto const& argument : call.args()) {
    all.add(of(argument));
    if (!argument->getType()->isPointerTy()) continue;
    bool only = false;
    for (auto const* variable : variables_behind(argument, only)) all.add(contents_.at(variable));
  }
  auto const here = control(*call.getParent());
  unsigned const last = call.arg_size() == 0 ? 0 : call.arg_size() - 1;
  bool const intrinsic = call.getCalledFunction()->isIntrinsic();
  if (auto const known = effect_of(c.name)) {
    switch (*known) {
      case effect::pure:
        return all;
      case effect::uniform_in_block:
        return here.same_in <= scope::block ? differs(call, scope::block) : differs(call);
      case effect::uniform_in_warp: {
        bool const whole = last > 0 && (is_all_ones(call.getArgOperand(0)) || undone("votes of a part")) && here.same_in <= scope::warp;
        return whole ? differs(call, scope::warp) : differs(call);
      }
      case effect::rank_of:
        write(call.getArgOperand(last), differs(call), call);
        return {};
      case effect::size_of:
        write(call.getArgOperand(last), of(call.getArgOperand(0)), call);
        return {};
      case effect::same_in_communicator: {
        unsigned const out = c.name == "MPI_Bcast" ? 0 : 1;
        sameness v = of(call.getArgOperand(last));
        v.add(of(call.getArgOperand(out + 1)));
        write(call.getArgOperand(out), v, call);
        return {};
      }
      case effect::barrier:
      case effect::ends:
        return {};
      case effect::allocates:
      case effect::differs:
        break;
    }
  } else if (follows_from_texts(c.name)) {
    // Whether all strings are arguments of the program, or literals.
    bool same_texts = true;
    for (auto const& argument : call.args()) {
      if (!argument->getType()->isPointerTy()) continue;
      for (auto const* object : objects_behind(argument)) {
        auto const* global = dyn_cast<GlobalVariable>(object);
        auto const* load = dyn_cast<LoadInst>(object);
        auto const* words = load == nullptr ? nullptr : dyn_cast<Argument>(getUnderlyingObject(load->getPointerOperand()));
        same_texts = same_texts && ((global != nullptr && global->isConstant()) || (words != nullptr && words->hasNoAliasAttr()));
      }
    }
    if (same_texts) return all;
  } else if (call.doesNotAccessMemory() && (intrinsic || !call.isConvergent())) {
    return all;
  }
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    auto const* argument = call.getArgOperand(i);
    if (argument->getType()->isPointerTy() && !reads_only(c, call, i)) write(argument, differs(call), call);
  }
  return call.getType()->isVoidTy() ? sameness{} : differs(call);
}

}  // namespace coalesce
