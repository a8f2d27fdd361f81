#include "waits.hpp"

#include "known.hpp"
#include "undone.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/CycleInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>

namespace coalesce {

using namespace llvm;

namespace {

bool is_assembly(Instruction const& i) {
  auto const* call = dyn_cast<CallBase>(&i);
  return call != nullptr && call->isInlineAsm();
}

// Whether an instruction updates memory atomically. Without a toolkit, calls of functions stand for such instructions.
bool is_atomic(lowered const& code, Instruction const& i) {
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(i)) return true;
  auto const* call = dyn_cast<CallBase>(&i);
  return call != nullptr && callee_of(code, *call).name.rfind("atomic", 0) == 0;
}

// Whether an instruction orders memory between threads, or waits. In a loop with such an instruction, a repeated read of memory may return
// another value.
bool looks_around(lowered const& code, Instruction const& i) {
  if (isa<FenceInst>(i)) return true;
  if (auto const* load = dyn_cast<LoadInst>(&i)) return load->isVolatile();
  auto const* call = dyn_cast<CallBase>(&i);
  if (call == nullptr) return false;
  if (is_assembly(i)) return call->mayHaveSideEffects();
  auto const name = callee_of(code, *call).name;
  for (char const* const part : {"membar", "fence", "nanosleep", "syncwarp", "bar_warp", "syncthreads", "barrier"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

// The values in one loop that depend on what other threads do while it runs.
class watched {
 public:
  watched(lowered const& code, Function& f, Cycle const& loop, same_values const& values, branches const& where)
      : code_{code}, loop_{loop}, values_{values}, where_{where} {
    for (auto const* block : loop.blocks()) {
      for (auto const& i : *block) looks_around_ = looks_around_ || looks_around(code, i);
    }
    do {
      changed_ = false;
      for (auto const& block : f) {
        for (auto const& i : block) visit(i);
      }
    } while (changed_);
  }
  [[nodiscard]] bool has(Value const* v) const { return seen_.count(v) != 0; }

 private:
  void mark(Value const* v) { changed_ = seen_.insert(v).second || changed_; }

  // Whether another thread may decide the value of `i`, in this loop.
  [[nodiscard]] bool is_source(Instruction const& i) const {
    if (!loop_.contains(i.getParent())) return false;
    if (is_atomic(code_, i)) return !undone("loops on atomics");
    if (is_assembly(i)) return true;
    if (auto const* load = dyn_cast<LoadInst>(&i)) {
      bool only = false;
      (void)values_.variables_behind(load->getPointerOperand(), only);
      if (only) return false;
      return !undone("loops on memory") && (load->isVolatile() || load->isAtomic() || looks_around_ || memory_);
    }
    auto const* call = dyn_cast<CallBase>(&i);
    if (call == nullptr) return false;
    auto const c = callee_of(code_, *call);
    if (c.is != nullptr && c.is->allocates) return false;
    if (c.name.empty()) return true;
    if (c.name.rfind("llvm.", 0) == 0 || c.name.rfind("gpuheap::mpi::c::", 0) == 0) return false;  // depends on the rank itself alone
    auto const known = effect_of(c.name);
    if (known && *known != effect::differs) return false;
    return c.name != "clock" && c.name != "clock64" && c.name.find("sreg") == std::string::npos;
  }

  void visit(Instruction const& i) {
    bool in = is_source(i);
    // A marked variable is an operand of the pointers to it. So these are marked, and also the values that are read through them.
    for (auto const& operand : i.operands()) in = in || has(operand);
    in = in || (isa<PHINode>(i) && has(i.getParent()));
    bool only = false;
    if (auto const* store = dyn_cast<StoreInst>(&i); store != nullptr && (in || has(i.getParent()))) {
      for (auto const* variable : values_.variables_behind(store->getPointerOperand(), only)) mark(variable);
      if (!only && !memory_) memory_ = changed_ = true;
    }
    // A value that such a call writes through a pointer depends on another thread, too.
    if (auto const* call = dyn_cast<CallBase>(&i); call != nullptr && in) {
      for (auto const& argument : call->args()) {
        if (!argument->getType()->isPointerTy()) continue;
        for (auto const* variable : values_.variables_behind(argument, only)) mark(variable);
      }
    }
    if (!in) return;
    mark(&i);
    if (!i.isTerminator() || i.getNumSuccessors() < 2) return;
    auto const& reach = where_.of(*i.getParent());
    for (auto const* block : reach.reached) mark(block);
    if (reach.together != nullptr) mark_joined(reach.together);
  }
  void mark_joined(BasicBlock const* block) {
    for (auto const& phi : block->phis()) mark(&phi);
  }

  lowered const& code_;
  Cycle const& loop_;
  same_values const& values_;
  branches const& where_;
  std::set<Value const*> seen_;
  bool looks_around_ = false, memory_ = false, changed_ = false;
};

// Whether a loop continues as long as an allocation in it fails. Such a loop waits for frees by other threads.
bool goes_on_without_memory(lowered const& code, Cycle const& loop, Instruction const& exit, BasicBlock const& out) {
  auto const* branch = dyn_cast<BranchInst>(&exit);
  auto const* test = branch == nullptr || !branch->isConditional() ? nullptr : dyn_cast<ICmpInst>(branch->getCondition());
  if (test == nullptr || !test->isEquality() || !isa<ConstantPointerNull>(test->getOperand(1))) return false;
  auto const* call = dyn_cast<CallBase>(getUnderlyingObject(test->getOperand(0)));
  if (call == nullptr || !loop.contains(call->getParent())) return false;
  auto const* known = callee_of(code, *call).is;
  if (known == nullptr || !known->allocates) return false;
  bool const out_if_equal = (branch->getSuccessor(0) == &out) == (test->getPredicate() == CmpInst::ICMP_EQ);
  return !out_if_equal;
}

}  // namespace

waits::waits(lowered const& code, Function& f, same_values const& values, branches const& where, scope level)
    : code_{code}, f_{f}, level_{level} {
  find_loops(values, where);
}

void waits::find_loops(same_values const& values, branches const& where) {
  CycleInfo cycles;
  cycles.compute(f_);
  std::vector<Cycle const*> open;
  for (auto const* cycle : cycles.toplevel_cycles()) open.push_back(cycle);
  while (!open.empty()) {
    auto const& loop = *open.back();
    open.pop_back();
    if (!undone("loops in loops")) open.insert(open.end(), loop.children().begin(), loop.children().end());
    watched const decided{code_, f_, loop, values, where};
    for (auto const* block : loop.blocks()) {
      auto const* exit = block->getTerminator();
      // If all threads leave the loop together, none of them waits for another one.
      sameness condition = values.control(*block);
      for (auto const& operand : exit->operands()) condition.add(values.of(operand));
      bool const together = condition.same_in <= level_;
      for (auto const* out : successors(block)) {
        if (loop.contains(out)) continue;
        if (decided.has(exit) && !together) leaves_[{block, out}] = exit;
        if (goes_on_without_memory(code_, loop, *exit, *out)) leaves_[{block, out}] = exit;
      }
    }
  }
}

bool waits::may_wait(CallBase const& call) const {
  if (call.isInlineAsm()) {
    auto const text = StringRef{cast<InlineAsm>(call.getCalledOperand())->getAsmString()};
    return text.contains("bra") || text.contains("wait") || text.contains("bar");
  }
  auto const c = callee_of(code_, call);
  if (c.defined) return true;  // the function calls itself, and may wait in between
  if (c.name.empty()) return any_target_may_wait(call);
  return is_waiting_of_ranks(c.name) || (c.is != nullptr && c.is->users && !effect_of(c.name));
}

// For a call through a pointer or a table: whether some function of the callee's type in the module may wait. True also if the module has
// no such function.
bool waits::any_target_may_wait(CallBase const& call) const {
  if (undone("functions by address")) return false;
  bool any = false;
  for (auto const& f : *code_.module) {
    if (f.isDeclaration() || code_.roots.count(f.getName().str()) != 0 || f.getFunctionType() != call.getFunctionType()) continue;
    any = true;
    for (auto const& block : f) {
      for (auto const& i : block) {
        if (is_atomic(code_, i) || isa<FenceInst>(i)) return true;
        auto const* inner = dyn_cast<CallBase>(&i);
        if (inner != nullptr && (callee_of(code_, *inner).name.empty() || may_wait(*inner))) return true;
      }
    }
  }
  return !any;
}

std::set<BasicBlock const*> waits::blocks() const {
  std::set<BasicBlock const*> found;
  for (auto const& [way, why] : leaves_) found.insert(way.first);
  for (auto const& block : f_) {
    for (auto const& i : block) {
      auto const* call = dyn_cast<CallBase>(&i);
      if (call != nullptr && may_wait(*call)) found.insert(&block);
    }
  }
  return found;
}

Instruction const* waits::step(Instruction const& i, Instruction const* waiting, same_values const& values) const {
  auto const* call = dyn_cast<CallBase>(&i);
  if (call == nullptr || isa<DbgInfoIntrinsic>(i)) return waiting;
  if (may_wait(*call)) return &i;
  bool const all_come = values.control(*i.getParent()).same_in <= level_;
  auto const c = callee_of(code_, *call);
  if (!all_come || !is_barrier(c, *call, level_)) return waiting;
  bool const of_all = !is_meeting_of_ranks(c.name) || values.of(call->getArgOperand(call->arg_size() - 1)).same_in == scope::grid;
  return of_all ? nullptr : waiting;
}

void waits::spread(same_values const& values) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto const& block : f_) {
      auto const begin = at_begin_.find(&block);
      Instruction const* waiting = begin == at_begin_.end() ? nullptr : begin->second;
      for (auto const& i : block) waiting = step(i, waiting, values);
      for (auto const* next : successors(&block)) {
        auto const left = leaves_.find({&block, next});
        Instruction const* const there = left != leaves_.end() ? left->second : waiting;
        if (there != nullptr && at_begin_.emplace(next, there).second) changed = true;
      }
    }
  }
}

Instruction const* waits::before(Instruction const& at, same_values const& values) const {
  auto const begin = at_begin_.find(at.getParent());
  Instruction const* waiting = begin == at_begin_.end() ? nullptr : begin->second;
  for (auto const& i : *at.getParent()) {
    if (&i == &at) break;
    waiting = step(i, waiting, values);
  }
  return waiting;
}

}  // namespace coalesce
