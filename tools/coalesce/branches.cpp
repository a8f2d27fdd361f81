#include "branches.hpp"

#include <llvm/IR/CFG.h>

#include <algorithm>
#include <set>

namespace coalesce {

namespace {

constexpr unsigned none = ~0u;

}  // namespace

branches::branches(llvm::Function& f, std::function<fate(llvm::BasicBlock const&)> const& fate_in) {
  std::map<llvm::BasicBlock const*, number> numbers;
  for (auto const& block : f) {
    numbers[&block] = static_cast<number>(blocks_.size());
    blocks_.push_back(&block);
  }
  auto const end = static_cast<number>(blocks_.size());
  next_.resize(end + 1);
  before_.resize(end + 1);
  auto const connect = [&](number from, number to) {
    if (std::find(next_[from].begin(), next_[from].end(), to) != next_[from].end()) return;
    next_[from].push_back(to);
    before_[to].push_back(from);
  };
  for (number i = 0; i < end; ++i) {
    for (auto const* successor : llvm::successors(blocks_[i])) {
      auto const becomes = fate_in(*successor);
      bool alone = becomes == fate::fail;
      if (becomes == fate::leave) {
        alone = true;
        for (auto const* other : llvm::successors(blocks_[i])) alone = alone && (other == successor || !meet(other, successor));
      }
      if (!alone) connect(i, numbers.at(successor));
    }
    if (next_[i].empty()) connect(i, end);
  }
  // If no path leads from a block to the end (an endless loop), the block, or one that it leads to, gets an edge to the end. From that
  // block on, paths meet others only at the end.
  std::vector<bool> ends(end + 1, false);
  std::vector<number> open{end};
  auto const spread = [&] {
    while (!open.empty()) {
      number const at = open.back();
      open.pop_back();
      if (ends[at]) continue;
      ends[at] = true;
      open.insert(open.end(), before_[at].begin(), before_[at].end());
    }
  };
  spread();
  for (number i = 0; i < end; ++i) {
    if (ends[i]) continue;
    connect(i, end);
    open.push_back(i);
    spread();
  }
  find_meeting_points();
  for (number i = 0; i < end; ++i) found_[blocks_[i]] = influence_of(i);
}

// Whether some block can be reached from both `a` and `b`.
bool branches::meet(llvm::BasicBlock const* a, llvm::BasicBlock const* b) const {
  auto const reached_from = [](llvm::BasicBlock const* from) {
    std::set<llvm::BasicBlock const*> seen;
    std::vector<llvm::BasicBlock const*> open{from};
    while (!open.empty()) {
      auto const* at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      for (auto const* next : llvm::successors(at)) open.push_back(next);
    }
    return seen;
  };
  auto const first = reached_from(a), second = reached_from(b);
  return std::any_of(first.begin(), first.end(), [&](auto const* at) { return second.count(at) != 0; });
}

branches::number branches::nearest(number a, number b) const {
  while (a != b) {
    while (order_[a] > order_[b]) a = meets_at_[a];
    while (order_[b] > order_[a]) b = meets_at_[b];
  }
  return a;
}

// Immediate post-dominators, after K. D. Cooper, T. J. Harvey and K. Kennedy.
void branches::find_meeting_points() {
  auto const end = static_cast<number>(blocks_.size());
  order_.assign(end + 1, none);
  meets_at_.assign(end + 1, none);
  std::vector<number> finished;
  std::vector<std::pair<number, std::size_t>> open{{end, 0}};
  std::vector<bool> seen(end + 1, false);
  seen[end] = true;
  while (!open.empty()) {
    auto& [at, edge] = open.back();
    if (edge < before_[at].size()) {
      number const to = before_[at][edge++];
      if (!seen[to]) {
        seen[to] = true;
        open.emplace_back(to, 0);
      }
      continue;
    }
    finished.push_back(at);
    open.pop_back();
  }
  std::reverse(finished.begin(), finished.end());  // the end is first
  for (number i = 0; i < finished.size(); ++i) order_[finished[i]] = i;
  meets_at_[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (number const at : finished) {
      if (at == end) continue;
      number all = none;
      for (number const to : next_[at]) {
        if (meets_at_[to] == none) continue;
        all = all == none ? to : nearest(all, to);
      }
      if (all != none && meets_at_[at] != all) {
        meets_at_[at] = all;
        changed = true;
      }
    }
  }
}

branches::influence branches::influence_of(number from) const {
  influence result;
  if (next_[from].size() < 2) return result;
  auto const end = static_cast<number>(blocks_.size());
  number const together = meets_at_[from];
  if (together != end && together != none) result.together = blocks_[together];
  std::vector<bool> seen(end + 1, false);
  std::vector<number> open = next_[from];
  while (!open.empty()) {
    number const at = open.back();
    open.pop_back();
    if (at == end || at == together || seen[at]) continue;
    seen[at] = true;
    result.reached.push_back(blocks_[at]);
    open.insert(open.end(), next_[at].begin(), next_[at].end());
  }
  return result;
}

}  // namespace coalesce
