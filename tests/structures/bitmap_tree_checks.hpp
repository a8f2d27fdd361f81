// Checks of a bitmap tree, for the real one and for those with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/relocation_count.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::bitmap_tree;
using gpuheap::structures::relocation_count;

// A tree in device memory. All bits are 0 at first.
template <class Tree = bitmap_tree>
class tree_memory {
 public:
  using word = bitmap_tree::word;

  explicit tree_memory(unsigned num_leaves, unsigned stride = 1)
      : num_leaves_{num_leaves}, stride_{stride}, words_(bitmap_tree::words_for(num_leaves, stride)) {}

  [[nodiscard]] Tree view() const {
    Tree tree;
    static_cast<bitmap_tree&>(tree) = bitmap_tree::over(words_.data(), num_leaves_, stride_);
    return tree;
  }
  // One word for each leaf, and summaries that say which are not empty.
  void write(std::vector<word> const& leaves) {
    std::vector<bool> marked(num_leaves_);
    for (unsigned i = 0; i < num_leaves_; ++i) marked[i] = leaves[i] != 0;
    write(leaves, marked);
  }
  // Summaries that say what `marked` does: leaves that are not empty, and others.
  void write(std::vector<word> const& leaves, std::vector<bool> const& marked) {
    std::vector<word> all(words_.size());
    for (unsigned i = 0; i < num_leaves_; ++i) {
      all[std::size_t{i} * stride_] = leaves[i];
      if (!marked[i]) continue;
      all[mids_at() + i / 64] |= word{1} << (i % 64);
      if (num_leaves_ > 64) all[tops_at() + i / 4096] |= word{1} << (i / 64 % 64);
    }
    words_.write(all);
  }
  [[nodiscard]] std::vector<word> leaves() const {
    auto const all = words_.read();
    std::vector<word> leaves(num_leaves_);
    for (unsigned i = 0; i < num_leaves_; ++i) leaves[i] = all[std::size_t{i} * stride_];
    return leaves;
  }
  // Whether searches look at leaf i, for each.
  [[nodiscard]] std::vector<bool> marked() const {
    auto const all = words_.read();
    std::vector<bool> marked(num_leaves_);
    for (unsigned i = 0; i < num_leaves_; ++i) {
      bool const top = num_leaves_ <= 64 || (all[tops_at() + i / 4096] >> (i / 64 % 64) & 1) != 0;
      marked[i] = top && (all[mids_at() + i / 64] >> (i % 64) & 1) != 0;
    }
    return marked;
  }

  // The faults in the invariant of a tree at rest.
  [[nodiscard]] std::string problem() const {
    std::string problems;
    auto const all = words_.read();
    auto const seen = marked();
    for (std::size_t at = 0; at < mids_at(); ++at) {
      std::size_t const i = at / stride_;
      if (at % stride_ != 0) {
        require(problems, all[at] == 0, "a word between leaves changed after leaf " + std::to_string(i));
      } else {
        require(problems, all[at] == 0 || seen[i], "leaf " + std::to_string(i) + " has bits, a summary bit over it is clear");
      }
    }
    std::size_t const mids = tops_at() - mids_at();
    for (std::size_t i = num_leaves_; i < mids * 64; ++i) {
      require(problems, (all[mids_at() + i / 64] >> (i % 64) & 1) == 0, "middle bit " + std::to_string(i) + " has no leaf");
    }
    for (std::size_t i = mids; i < (all.size() - tops_at()) * 64; ++i) {
      require(problems, (all[tops_at() + i / 64] >> (i % 64) & 1) == 0, "top bit " + std::to_string(i) + " has no middle word");
    }
    return problems;
  }

 private:
  [[nodiscard]] std::size_t mids_at() const { return std::size_t{num_leaves_} * stride_; }
  [[nodiscard]] std::size_t tops_at() const { return mids_at() + (num_leaves_ + 63) / 64; }

  unsigned num_leaves_, stride_;
  test::device_array<word> words_;
};

// The leaves that a check uses: every step-th, so that several lie under one middle word, or one under each.
struct leaves_in_play {
  unsigned count;
  unsigned step = 1;

  [[nodiscard]] GPUHEAP_HD unsigned at(unsigned k) const { return k * step; }
  [[nodiscard]] GPUHEAP_HD unsigned any(test::rng& random) const { return at(random.below(count)); }
  // Leaves of a tree that has these.
  [[nodiscard]] GPUHEAP_HD unsigned all() const { return at(count - 1) + 1; }
};

// ---- bits change hands

// Kernel: threads take bits and put them back, so that leaves become empty and filled all the time. In play are the lowest bits of some
// leaves. Half of the threads keep the last bit they took.
template <class Tree>
struct trade_bits {
  Tree tree;
  owned_cells cells;  // by bit
  leaves_in_play leaves;
  unsigned bits_in_play;
  unsigned rounds;

  static constexpr unsigned none = ~0u;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned held = none;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const leaf = leaves.any(random);
      unsigned const way = random.below(8);
      if (way < 2) {
        trade_leaf(leaf, i, way == 0);
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
  // Takes whatever the leaf has, and puts it back. Of the leaf alone: it clears the stale summary bit in between.
  GPUHEAP_FN void trade_leaf(unsigned leaf, unsigned i, bool leaf_only) const {
    bitmap_tree::word const all = simt::low_bits(bits_in_play);
    bool emptied = false;
    bitmap_tree::word const got = leaf_only ? tree.take_leaf_only(leaf, all, emptied) : tree.take_mask(leaf, all);
    cells.claim_bits(leaf * 64, got, i);
    if (emptied) tree.clear_stale(leaf);
    if (got == 0) return;
    cells.release_bits(leaf * 64, got, i);
    tree.set_mask(leaf, got);
  }
};

// Each bit in play ends up in the tree or with one owner, and the tree keeps its invariant.
template <class Tree>
std::string bits_change_hands(unsigned threads, leaves_in_play in_play, unsigned bits_in_play, unsigned rounds, unsigned stride = 1) {
  unsigned const num_leaves = in_play.all();
  tree_memory<Tree> memory(num_leaves, stride);
  std::vector<bitmap_tree::word> start(num_leaves);
  for (unsigned k = 0; k < in_play.count; ++k) start[in_play.at(k)] = simt::low_bits(bits_in_play);
  memory.write(start);
  cell_memory cells(num_leaves * 64);
  gpuheap::launch(threads, trade_bits<Tree>{memory.view(), cells.view(), in_play, bits_in_play, rounds}, {.block_threads = 64});
  std::string problems = memory.problem() + cells.problem();
  auto const leaves = memory.leaves();
  auto const owners = cells.owners();
  for (unsigned bit = 0; bit < num_leaves * 64; ++bit) {
    bool const there = (leaves[bit / 64] >> (bit % 64) & 1) != 0, owned = owners[bit] != 0;
    if ((start[bit / 64] >> (bit % 64) & 1) != 0) {
      require(problems, there != owned, "bit " + std::to_string(bit) + (owned ? " is in the tree and owned" : " is lost"));
    } else {
      require(problems, !there && !owned, "bit " + std::to_string(bit) + " came from nowhere");
    }
  }
  return problems;
}

// ---- a set that is finished is seen

// Kernel: each thread sets a bit and goes through the tree for it. Some erase a bit of their own first; nobody takes.
template <class Tree>
struct set_and_look {
  Tree tree;
  leaves_in_play leaves;
  unsigned* unseen;

  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const leaf = leaves.at(i % leaves.count), bit = leaf * 64 + i / leaves.count % 32;
    if (i % 3 == 0) {
      tree.set(bit + 32);
      tree.erase(bit + 32);
    }
    tree.set(bit);
    bool const seen = tree.for_each_leaf(i % tree.num_leaves, [&](unsigned visited) { return visited == leaf; });
    if (!seen || !tree.maybe_any()) count(unseen);
  }
};

template <class Tree>
std::string finished_sets_are_seen(unsigned threads, leaves_in_play in_play) {
  tree_memory<Tree> memory(in_play.all());
  test::device_array<unsigned> unseen(1);
  gpuheap::launch(threads, set_and_look<Tree>{memory.view(), in_play, unseen.data()}, {.block_threads = 64});
  std::string problems = memory.problem();
  require(problems, unseen.first() == 0, "a thread that had set a bit did not find its leaf");
  for (auto leaf : memory.leaves()) require(problems, (leaf >> 32) == 0, "an erased bit is still there");
  return problems;
}

// ---- an empty tree is known to be empty

// Kernel: every other thread sets bits, and the others take whole leaves, which clears their summary bits: setters are overtaken on their
// way up.
template <class Tree>
struct set_and_take_away {
  Tree tree;
  leaves_in_play leaves;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 2 == 0) {
        tree.set(leaves.any(random) * 64 + i % 64);
      } else {
        tree.take_mask(leaves.any(random), ~bitmap_tree::word{0});
      }
    }
  }
};

// Kernel of one thread: takes all that a search finds, and clears the summary bits of what it finds empty, until it finds nothing. Then
// asks whether there may be anything.
template <class Tree>
struct empty_and_ask {
  Tree tree;
  unsigned* out;  // whether there may be; passes

  GPUHEAP_FN void operator()(unsigned) const {
    unsigned visited = 1, passes = 0;
    for (; visited != 0 && passes < 100; ++passes) {
      visited = 0;
      tree.for_each_leaf(0, [&](unsigned i) {
        ++visited;
        if (tree.take_mask(i, ~bitmap_tree::word{0}) == 0) tree.clear_stale(i);
        return false;
      });
    }
    out[0] = tree.maybe_any();
    out[1] = passes;
  }
};

template <class Tree>
std::string an_emptied_tree_has_nothing(unsigned threads, leaves_in_play in_play, unsigned rounds) {
  tree_memory<Tree> memory(in_play.all());
  test::device_array<unsigned> out(2);
  gpuheap::launch(threads, set_and_take_away<Tree>{memory.view(), in_play, rounds}, {.block_threads = 64});
  std::string problems = memory.problem();
  gpuheap::launch(1, empty_and_ask<Tree>{memory.view(), out.data()});
  auto const found = out.read();
  require(problems, found[1] < 100, "a search finds leaves for ever");
  require(problems, found[0] == 0, "all leaves were found empty and cleared, and there still may be something");
  return problems;
}

// ---- a search that no take crossed is right

// Kernel: three of four threads move the tree's only bit from leaf to leaf, each move bracketed. The others ask whether there is any, or go
// through the leaves.
template <class Tree>
struct move_and_search {
  Tree tree;
  leaves_in_play leaves;
  relocation_count moves;
  unsigned rounds;
  unsigned* missed;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (i % 4 == 0) {
        search(random.below(2) == 0, random.below(tree.num_leaves));
      } else {
        move(leaves.any(random), leaves.any(random));
      }
    }
  }
  GPUHEAP_FN void move(unsigned from, unsigned to) const {
    moves.begin();
    if (tree.take(from * 64)) tree.set(to * 64);
    moves.end();
  }
  GPUHEAP_FN void search(bool ask, unsigned start) const {
    relocation_count::word const before = moves.read_begin();
    // relaxed: the count alone orders the search.
    auto const has_bits = [&](unsigned i) { return tree.leaf(i).load(simt::relaxed) != 0; };
    if (ask ? tree.maybe_any() : tree.for_each_leaf(start, has_bits)) return;
    if (moves.read_end() == before && relocation_count::quiet(before)) count(missed);
  }
};

template <class Tree>
std::string undisturbed_searches_find_the_bit(unsigned threads, leaves_in_play in_play, unsigned rounds) {
  tree_memory<Tree> memory(in_play.all());
  std::vector<bitmap_tree::word> leaves(in_play.all());
  leaves[0] = 1;
  memory.write(leaves);
  test::device_array<relocation_count::word> state(1);
  test::device_array<unsigned> missed(1);
  gpuheap::launch(threads, move_and_search<Tree>{memory.view(), in_play, {state.data()}, rounds, missed.data()}, {.block_threads = 64});
  std::string problems = memory.problem();
  require(problems, missed.first() == 0, "a search that no take crossed missed the bit");
  unsigned bits = 0;
  for (auto leaf : memory.leaves()) bits += simt::popcount(leaf);
  require(problems, bits == 1, "the tree has " + std::to_string(bits) + " bits instead of one");
  return problems;
}

// ---- claims in order

// Kernel: threads claim single bits from a place on, or any, and runs from the far end, and put them back. Half of them keep what they have
// at the end.
template <class Tree>
struct claim_in_order {
  Tree tree;
  owned_cells cells;  // by bit
  unsigned num_bits;
  unsigned longest;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned first = Tree::none, n = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      put_back(first, n, i);
      n = random.below(3) == 0 ? 1 + random.below(longest) : 0;
      unsigned const from = random.below(num_bits);
      first = n != 0 ? tree.claim_run(n) : random.below(2) == 0 ? tree.claim(from) : tree.claim_any(from);
      n = n != 0 ? n : 1;
      if (first == Tree::none) continue;
      for (unsigned k = 0; k < n; ++k) cells.claim(first + k, i);
    }
    if (i % 2 == 0) put_back(first, n, i);
  }
  GPUHEAP_FN void put_back(unsigned first, unsigned n, unsigned i) const {
    if (first == Tree::none) return;
    for (unsigned k = 0; k < n; ++k) cells.release(first + k, i);
    tree.set_run(first, n);
  }
};

// Kernel: each thread takes a bit, wherever there is one.
template <class Tree>
struct claim_any_bit {
  Tree tree;
  unsigned* found;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    found[i] = tree.claim_any(random.below(tree.num_leaves * 64));
  }
};
// As many threads as bits, `most` of them in a leaf: nobody is refused, and no bit is given twice.
template <class Tree>
std::string all_bits_are_claimed(unsigned threads, unsigned num_leaves, unsigned most) {
  tree_memory<Tree> memory(num_leaves);
  std::vector<bitmap_tree::word> leaves(num_leaves);
  test::rng random{threads};
  for (unsigned left = threads; left != 0;) {
    bitmap_tree::word& leaf = leaves[random.below(num_leaves)];
    bitmap_tree::word const bit = bitmap_tree::word{1} << random.below(most);
    left -= (leaf & bit) == 0;
    leaf |= bit;
  }
  memory.write(leaves);
  test::device_array<unsigned> found(threads);
  gpuheap::launch(threads, claim_any_bit<Tree>{memory.view(), found.data()}, {.block_threads = 64});
  std::string problems = memory.problem();
  for (unsigned const bit : found.read()) {
    bool const there = bit < num_leaves * 64 && (leaves[bit / 64] >> (bit % 64) & 1) != 0;
    require(problems, there, bit == Tree::none ? "a thread got none" : "bit " + std::to_string(bit) + " was given twice, or was not there");
    if (there) leaves[bit / 64] &= ~(bitmap_tree::word{1} << (bit % 64));
  }
  return problems;
}

// Each bit ends up in the tree or with one owner, and the tree keeps its invariant.
template <class Tree>
std::string claims_are_apart(unsigned threads, unsigned num_bits, unsigned longest, unsigned rounds) {
  unsigned const num_leaves = bitmap_tree::leaves_for(num_bits);
  tree_memory<Tree> memory(num_leaves);
  std::vector<bitmap_tree::word> start(num_leaves, ~bitmap_tree::word{0});
  if (num_bits % 64 != 0) start.back() = simt::low_bits(num_bits % 64);
  memory.write(start);
  cell_memory cells(num_leaves * 64);
  gpuheap::launch(threads, claim_in_order<Tree>{memory.view(), cells.view(), num_bits, longest, rounds}, {.block_threads = 64});
  std::string problems = memory.problem() + cells.problem();
  auto const leaves = memory.leaves();
  auto const owners = cells.owners();
  for (unsigned bit = 0; bit < num_leaves * 64; ++bit) {
    bool const there = (leaves[bit / 64] >> (bit % 64) & 1) != 0, owned = owners[bit] != 0;
    require(problems, bit < num_bits ? there != owned : !there && !owned,
            "bit " + std::to_string(bit) +
                (there && owned   ? " is in the tree and owned"
                 : there || owned ? " came from nowhere"
                                  : " is lost"));
  }
  return problems;
}

}  // namespace structures_test
