// The blocks of a function that depend on each branch. Paths on which threads end do not count.
#pragma once

#include <llvm/IR/Function.h>

#include <functional>
#include <map>
#include <vector>

namespace coalesce {

class branches {
 public:
  // The possible ends of threads that go to a block.
  enum class fate {
    stay,   // they may meet the others again
    leave,  // each of them ends, by a way of its own, unless others come there too
    fail,   // they end the program
  };
  branches(llvm::Function& f, std::function<fate(llvm::BasicBlock const&)> const& fate_in);

  struct influence {
    std::vector<llvm::BasicBlock const*> reached;  // by some of the threads, perhaps: from the branch to where all come together again
    llvm::BasicBlock const* together = nullptr;    // that place; null: threads end first
  };
  // The influence of the branch that ends `block`; nothing if all threads take one way.
  [[nodiscard]] influence const& of(llvm::BasicBlock const& block) const { return found_.at(&block); }

 private:
  using number = unsigned;
  [[nodiscard]] influence influence_of(number from) const;
  void find_meeting_points();
  [[nodiscard]] bool meet(llvm::BasicBlock const* a, llvm::BasicBlock const* b) const;
  [[nodiscard]] number nearest(number a, number b) const;

  std::vector<llvm::BasicBlock const*> blocks_;
  std::vector<std::vector<number>> next_, before_;  // the last number is the end
  std::vector<number> order_, meets_at_;            // place in a walk backwards from the end; immediate post-dominator
  std::map<llvm::BasicBlock const*, influence> found_;
};

}  // namespace coalesce
