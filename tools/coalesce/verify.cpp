#include "verify.hpp"

#include "known.hpp"
#include "undone.hpp"
#include "waits.hpp"

#include <llvm/IR/CFG.h>
#include <llvm/IR/DebugInfoMetadata.h>

#include <set>

namespace coalesce {

using namespace llvm;

namespace {

using block_set = std::set<BasicBlock const*>;

// The blocks from which a block of `from` can be reached, including `from`.
block_set that_reach(block_set from) {
  std::vector<BasicBlock const*> open{from.begin(), from.end()};
  while (!open.empty()) {
    auto const* block = open.back();
    open.pop_back();
    for (auto const* before : predecessors(block)) {
      if (from.insert(before).second) open.push_back(before);
    }
  }
  return from;
}

place place_of(DILocation const& at) {
  std::string const name = at.getFilename().str();
  std::string const file = name.empty() || name[0] == '/' ? name : at.getDirectory().str() + "/" + name;
  return {path_of(file), 0, at.getLine(), at.getColumn()};
}

class verifier {
 public:
  verifier(options const& asked, lowered const& code) : asked_{asked}, code_{code} {}

  std::vector<doubt> run() {
    for (auto& f : *code_.module) {
      if (f.isDeclaration()) continue;
      if (code_.roots.count(f.getName().str()) != 0) {
        look_at_root(f);
      } else {
        // The function calls itself and so is not inlined: which threads reach it is unknown.
        for (auto const* call : promises_of(f)) {
          if (undone("recursion")) continue;
          doubts_.push_back(because(*call, "W10", "it is made in a function that calls itself", nullptr));
        }
      }
    }
    return std::move(doubts_);
  }

 private:
  [[nodiscard]] std::vector<CallBase const*> promises_of(Function const& f) const {
    std::vector<CallBase const*> found;
    for (auto const& block : f) {
      for (auto const& i : block) {
        auto const* call = dyn_cast<CallBase>(&i);
        if (call != nullptr && callee_of(code_, *call).promises) found.push_back(call);
      }
    }
    return found;
  }

  void look_at_root(Function& f) {
    auto const promises = promises_of(f);
    if (promises.empty()) return;
    block_set returns, marked, meets;
    for (auto const& block : f) {
      if (!isa<UnreachableInst>(block.getTerminator())) returns.insert(&block);
      for (auto const& i : block) {
        auto const* call = dyn_cast<CallBase>(&i);
        if (call == nullptr) continue;
        auto const c = callee_of(code_, *call);
        if (c.promises || is_barrier(c, *call, scope::warp)) meets.insert(&block);
        if (c.name == thread_ends) marked.insert(&block);
      }
    }
    auto const goes_on = that_reach(returns), says_return = that_reach(marked);
    auto const fate_before = [&](BasicBlock const& block) {
      return goes_on.count(&block) != 0 || says_return.count(&block) != 0 ? branches::fate::stay : branches::fate::fail;
    };
    branches const all{f, fate_before};
    same_values const before{code_, f, all};
    waits waiting{code_, f, before, all, asked_.level};
    // Blocks with `thread_ends` exist only if the collective heap counts the threads that have not ended (options.hpp: census). It then
    // does not wait for threads that have ended, so a thread that ends without meeting others again does not make a later promise untrue.
    meets.merge(waiting.blocks());
    auto const matters = that_reach(meets);
    branches const left{f, [&](BasicBlock const& block) {
                          if (goes_on.count(&block) != 0 || matters.count(&block) != 0) return branches::fate::stay;
                          return says_return.count(&block) != 0 ? branches::fate::leave : branches::fate::fail;
                        }};
    same_values const values{code_, f, left};
    waiting.spread(values);
    for (auto const* call : promises) look_at_promise(*call, values, waiting);
  }

  void look_at_promise(CallBase const& call, same_values const& values, waits const& waiting) {
    std::string const group = std::string{"threads of a "} + name_of(asked_.level);
    auto const fits = [&](sameness const& s) { return s.same_in <= asked_.level; };
    auto const c = callee_of(code_, call);
    auto const come = values.control(*call.getParent());
    if (!fits(come) && !undone("arrival")) {
      doubts_.push_back(because(call, "W1", "not all " + group + " may reach it together", come.why));
      return;
    }
    sameness size;
    unsigned const last = call.arg_size() - 1;
    bool const of_heap = asked_.registered.count(c.name) == 0;
    for (unsigned i = 0; of_heap && i < last; ++i) size.add(values.of(call.getArgOperand(i)));
    size.add(values.of(call.getArgOperand(last)));
    if (!fits(size) && !undone("size")) {
      doubts_.push_back(because(call, "W4", "its size may differ between " + group, size.why));
      return;
    }
    if (auto const* wait = waiting.before(call, values); wait != nullptr && !undone("waiting"))
      doubts_.push_back(
          because(call, "W11", "a thread may wait, before it, for another one of its " + std::string{name_of(asked_.level)}, wait));
  }

  [[nodiscard]] doubt because(CallBase const& call, char const* rule, std::string const& text, Instruction const* why) const {
    doubt d{{}, rule, text, {}, {}};
    for (DILocation const* at = call.getDebugLoc(); at != nullptr; at = at->getInlinedAt()) d.calls.push_back(place_of(*at));
    if (why != nullptr && why->getDebugLoc()) {
      d.cause_at = place_of(*why->getDebugLoc());
      d.cause = rule == std::string{"W11"} ? "it may wait here" : "what is read here may differ between threads";
    }
    return d;
  }

  options const& asked_;
  lowered const& code_;
  std::vector<doubt> doubts_;
};

}  // namespace

std::vector<doubt> verify(options const& asked, lowered const& code) {
  if (undone("check")) return {};
  return verifier{asked, code}.run();
}

}  // namespace coalesce
