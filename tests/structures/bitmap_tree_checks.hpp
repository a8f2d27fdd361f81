// Checks of a bitmap tree, for the real one and for those with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/transit_count.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::bitmap_tree;
using gpuheap::structures::transit_count;

// A tree in device memory. All bits are 0 at first.
template <class Tree = bitmap_tree>
class tree_memory {
 public:
  using word = bitmap_tree::word;

  explicit tree_memory(unsigned num_leaves, unsigned stride = 1)
      : num_leaves_{num_leaves},
        stride_{stride},
        leaves_(std::size_t{num_leaves} * stride),
        summary_(bitmap_tree::summaries_for(num_leaves)) {}

  [[nodiscard]] Tree view() const {
    Tree tree;
    tree.leaves = leaves_.data();
    tree.summary = summary_.data();
    tree.num_leaves = num_leaves_;
    tree.leaf_stride = stride_;
    return tree;
  }
  // One word for each leaf, and a summary that says which are not empty.
  void write(std::vector<word> const& leaves) {
    std::vector<word> summary(summary_.size());
    for (unsigned i = 0; i < num_leaves_; ++i) summary[i / 64] |= word{leaves[i] != 0} << (i % 64);
    write(leaves, summary);
  }
  void write(std::vector<word> const& leaves, std::vector<word> const& summary) {
    std::vector<word> spread(leaves_.size());
    for (unsigned i = 0; i < num_leaves_; ++i) spread[std::size_t{i} * stride_] = leaves[i];
    leaves_.write(spread);
    summary_.write(summary);
  }
  [[nodiscard]] std::vector<word> leaves() const {
    auto const spread = leaves_.read();
    std::vector<word> leaves(num_leaves_);
    for (unsigned i = 0; i < num_leaves_; ++i) leaves[i] = spread[std::size_t{i} * stride_];
    return leaves;
  }
  [[nodiscard]] std::vector<word> summary() const { return summary_.read(); }

  // What breaks the invariant of a tree at rest.
  [[nodiscard]] std::string problem() const {
    std::string problems;
    auto const spread = leaves_.read();
    auto const above = summary_.read();
    for (std::size_t at = 0; at < spread.size(); ++at) {
      std::size_t const i = at / stride_;
      if (at % stride_ != 0) {
        require(problems, spread[at] == 0, "a word between leaves changed after leaf " + std::to_string(i));
      } else {
        require(problems, spread[at] == 0 || (above[i / 64] >> (i % 64) & 1) != 0,
                "leaf " + std::to_string(i) + " has bits, its summary bit is clear");
      }
    }
    for (std::size_t i = num_leaves_; i < above.size() * 64; ++i) {
      require(problems, (above[i / 64] >> (i % 64) & 1) == 0, "summary bit " + std::to_string(i) + " has no leaf");
    }
    return problems;
  }

 private:
  unsigned num_leaves_, stride_;
  test::device_array<word> leaves_;
  test::device_array<word> summary_;
};

// ---- bits change hands

// Kernel: threads take bits and put them back, so that leaves become empty and filled all the time. In play are the lowest bits of each
// leaf. Half of the threads keep the last bit they took.
template <class Tree>
struct trade_bits {
  Tree tree;
  owned_cells cells;  // by bit
  unsigned bits_in_play;
  unsigned rounds;

  static constexpr unsigned none = ~0u;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned held = none;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const leaf = random.below(tree.num_leaves);
      if (random.below(4) == 0) {
        trade_leaf(leaf, i);
        continue;
      }
      unsigned const bit = leaf * 64 + random.below(bits_in_play);
      if (!tree.take(bit)) continue;
      cells.claim(bit, i);
      put_back(held, i);
      held = bit;
    }
    if (i % 2 == 0) put_back(held, i);
  }
  GPUHEAP_FN void put_back(unsigned bit, unsigned i) const {
    if (bit == none) return;
    cells.release(bit, i);
    tree.set(bit);
  }
  // Takes whatever the leaf has, and puts it back.
  GPUHEAP_FN void trade_leaf(unsigned leaf, unsigned i) const {
    bitmap_tree::word const got = tree.take_mask(leaf, simt::low_bits(bits_in_play));
    if (got == 0) return;
    cells.claim_bits(leaf * 64, got, i);
    cells.release_bits(leaf * 64, got, i);
    tree.set_mask(leaf, got);
  }
};

// Each bit in play ends up in the tree or with one owner, and the tree keeps its invariant.
template <class Tree>
std::string bits_change_hands(unsigned threads, unsigned num_leaves, unsigned bits_in_play, unsigned rounds, unsigned stride = 1) {
  tree_memory<Tree> memory(num_leaves, stride);
  memory.write(std::vector<bitmap_tree::word>(num_leaves, simt::low_bits(bits_in_play)));
  cell_memory cells(num_leaves * 64);
  gpuheap::launch(threads, trade_bits<Tree>{memory.view(), cells.view(), bits_in_play, rounds}, {.block_threads = 64});
  std::string problems = memory.problem() + cells.problem();
  auto const leaves = memory.leaves();
  auto const owners = cells.owners();
  for (unsigned bit = 0; bit < num_leaves * 64; ++bit) {
    bool const there = (leaves[bit / 64] >> (bit % 64) & 1) != 0, owned = owners[bit] != 0;
    if (bit % 64 < bits_in_play) {
      require(problems, there != owned, "bit " + std::to_string(bit) + (owned ? " is in the tree and owned" : " is lost"));
    } else {
      require(problems, !there && !owned, "bit " + std::to_string(bit) + " came from nowhere");
    }
  }
  return problems;
}

// ---- a set that is finished is seen

// Kernel: each thread sets a bit and looks for its leaf's summary bit. Nobody takes.
template <class Tree>
struct set_and_look {
  Tree tree;
  unsigned* unseen;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const leaf = i % tree.num_leaves;
    tree.set(leaf * 64 + i / tree.num_leaves % 64);
    if ((tree.summary_word(leaf / 64).load(simt::acquire) >> (leaf % 64) & 1) == 0 || !tree.maybe_any()) count(unseen);
  }
};

template <class Tree>
std::string finished_sets_are_seen(unsigned threads, unsigned num_leaves) {
  tree_memory<Tree> memory(num_leaves);
  test::device_array<unsigned> unseen(1);
  gpuheap::launch(threads, set_and_look<Tree>{memory.view(), unseen.data()}, {.block_threads = 64});
  std::string problems = memory.problem();
  require(problems, unseen.first() == 0, "a thread that had set a bit found the summary bit clear");
  return problems;
}

// ---- a search that no take crossed is right

// Kernel: three of four threads move the tree's only bit from leaf to leaf, each move bracketed. The others ask whether there is any.
template <class Tree>
struct move_and_search {
  Tree tree;
  transit_count moves;
  unsigned rounds;
  unsigned* missed;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 4 == 0) {
        search();
      } else {
        move(random.below(tree.num_leaves), random.below(tree.num_leaves));
      }
    }
  }
  GPUHEAP_FN void move(unsigned from, unsigned to) const {
    moves.begin();
    if (tree.take(from * 64)) tree.set(to * 64);
    moves.end();
  }
  GPUHEAP_FN void search() const {
    transit_count::word const before = moves.look();
    if (tree.maybe_any()) return;
    if (transit_count::quiet(before) && moves.look() == before) count(missed);
  }
};

template <class Tree>
std::string undisturbed_searches_find_the_bit(unsigned threads, unsigned num_leaves, unsigned rounds) {
  tree_memory<Tree> memory(num_leaves);
  std::vector<bitmap_tree::word> leaves(num_leaves);
  leaves[0] = 1;
  memory.write(leaves);
  test::device_array<transit_count::word> state(1);
  test::device_array<unsigned> missed(1);
  gpuheap::launch(threads, move_and_search<Tree>{memory.view(), {state.data()}, rounds, missed.data()}, {.block_threads = 64});
  std::string problems = memory.problem();
  require(problems, missed.first() == 0, "a search that no take crossed missed the bit");
  unsigned bits = 0;
  for (auto leaf : memory.leaves()) bits += simt::popcount(leaf);
  require(problems, bits == 1, "the tree has " + std::to_string(bits) + " bits instead of one");
  return problems;
}

}  // namespace structures_test
