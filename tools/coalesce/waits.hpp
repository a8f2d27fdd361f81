// Finds the places where a thread may wait for another thread: locks, tickets, flags, messages.
#pragma once

#include "sameness.hpp"

namespace coalesce {

class waits {
 public:
  waits(lowered const& code, llvm::Function& f, same_values const& values, branches const& where, scope level);

  // Blocks in which a thread may wait, or goes on only because another one has done something.
  [[nodiscard]] std::set<llvm::BasicBlock const*> blocks() const;
  // An instruction at which a thread that reaches `at` may have waited for another thread since all threads of the group last met. Null if
  // there is none.
  [[nodiscard]] llvm::Instruction const* before(llvm::Instruction const& at, same_values const& values) const;
  // Computes the results of before(), once it is known which barriers all threads reach.
  void spread(same_values const& values);

 private:
  using edge = std::pair<llvm::BasicBlock const*, llvm::BasicBlock const*>;
  void find_loops(same_values const& values, branches const& where);
  [[nodiscard]] llvm::Instruction const* step(llvm::Instruction const& i, llvm::Instruction const* waiting,
                                              same_values const& values) const;
  [[nodiscard]] bool may_wait(llvm::CallBase const& call) const;
  [[nodiscard]] bool any_target_may_wait(llvm::CallBase const& call) const;

  lowered const& code_;
  llvm::Function& f_;
  scope level_;
  std::map<edge, llvm::Instruction const*> leaves_;                       // the exits of loops that another thread's actions end
  std::map<llvm::BasicBlock const*, llvm::Instruction const*> at_begin_;  // before(), for the begin of each block
};

}  // namespace coalesce
