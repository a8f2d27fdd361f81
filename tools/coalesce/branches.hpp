// For each branch of a function, the basic blocks that perhaps only some of the threads reach. Paths on which threads end are ignored.
#pragma once

#include <llvm/IR/Function.h>

#include <functional>
#include <map>
#include <vector>

namespace coalesce {

class branches {
 public:
  // The fate of threads that go to a block.
  enum class fate {
    stay,   // they may meet the other threads again
    leave,  // they end there, and are ignored unless the branch's other paths lead to the same blocks
    fail,   // they end the program
  };
  branches(llvm::Function& f, std::function<fate(llvm::BasicBlock const&)> const& fate_in);

  struct influence {
    std::vector<llvm::BasicBlock const*> reached;  // the blocks from the branch to `together`, which perhaps only some threads reach
    llvm::BasicBlock const* together = nullptr;    // where all threads meet again; null: they end first
  };
  // The influence of the branch that ends `block`; empty if the block has one successor.
  [[nodiscard]] influence const& of(llvm::BasicBlock const& block) const { return found_.at(&block); }

 private:
  using number = unsigned;
  [[nodiscard]] influence influence_of(number from) const;
  void find_meeting_points();
  [[nodiscard]] bool meet(llvm::BasicBlock const* a, llvm::BasicBlock const* b) const;
  [[nodiscard]] number nearest(number a, number b) const;

  std::vector<llvm::BasicBlock const*> blocks_;
  std::vector<std::vector<number>> next_, before_;  // the blocks after and before each; the last number stands for the end of the function
  std::vector<number> order_, meets_at_;            // position in a reverse postorder of the reversed graph; immediate post-dominator
  std::map<llvm::BasicBlock const*, influence> found_;
};

}  // namespace coalesce
