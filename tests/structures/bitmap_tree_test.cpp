// The bitmap tree: what its operations return, its invariant at rest after contention, and what a finished set promises.
#include <algorithm>

#include "bitmap_tree_checks.hpp"

namespace structures_test {

// Kernel: one call on a tree; the answer goes to *out.
enum class tree_call { set_mask, take_mask, take_leaf_only, take, erase, clear_stale, maybe_any };
struct call_tree {
  bitmap_tree tree;
  tree_call what;
  unsigned leaf;
  bitmap_tree::word mask;
  bitmap_tree::word* out;  // the answer, and what take_leaf_only() says of the leaf

  GPUHEAP_FN void operator()(unsigned) const {
    out[0] = out[1] = 0;
    bool emptied = false;
    switch (what) {
      case tree_call::set_mask:
        tree.set_mask(leaf, mask);
        break;
      case tree_call::take_mask:
        *out = tree.take_mask(leaf, mask);
        break;
      case tree_call::take_leaf_only:
        *out = tree.take_leaf_only(leaf, mask, emptied);
        out[1] = emptied;
        break;
      case tree_call::take:
        *out = tree.take(leaf * 64 + simt::lowest_bit(mask));
        break;
      case tree_call::erase:
        tree.erase(leaf * 64 + simt::lowest_bit(mask));
        break;
      case tree_call::clear_stale:
        tree.clear_stale(leaf);
        break;
      case tree_call::maybe_any:
        *out = tree.maybe_any();
        break;
    }
  }
};

// Kernel: writes down the leaves that a search from `start` visits, up to `most` of them: their number, whether it stopped there, and them.
struct visit_leaves {
  bitmap_tree tree;
  unsigned start, most;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const {
    unsigned n = 0;
    bool const stopped = tree.for_each_leaf(start, [&](unsigned i) {
      out[2 + n++] = i;
      return n == most;
    });
    out[0] = n;
    out[1] = stopped;
  }
};

// Kernel of one warp: its lanes ask for a bit each, `rounds` times, from `start` on; *from is where each time ended.
struct bits_for_lanes {
  bitmap_tree tree;
  unsigned start, rounds;
  bitmap_tree::share* out;
  unsigned* from;

  GPUHEAP_FN void operator()(unsigned i) const {
    simt::lane_mask const here = simt::active_mask();
    unsigned const lanes = simt::popcount(here);
    unsigned at = start;
    for (unsigned round = 0; round < rounds; ++round) {
      out[round * lanes + i] = tree.bit_for_each(here, at);
      from[round * lanes + i] = at;
    }
  }
};

namespace {

// 70 leaves: two middle words and a top word.
class BitmapTree : public testing::Test {
 protected:
  bitmap_tree::word call(tree_call what, unsigned leaf = 0, bitmap_tree::word mask = 0) {
    gpuheap::launch(1, call_tree{memory.view(), what, leaf, mask, out.data()});
    EXPECT_EQ(memory.problem(), "");
    return out.first();
  }
  [[nodiscard]] bool emptied() const { return out.read()[1] != 0; }
  [[nodiscard]] bitmap_tree::word leaf(unsigned i) const { return memory.leaves()[i]; }
  [[nodiscard]] bool marked(unsigned i) const { return memory.marked()[i]; }

  static constexpr unsigned num_leaves = 70;
  tree_memory<> memory{num_leaves, 3};
  test::device_array<bitmap_tree::word> out{2};
};

TEST_F(BitmapTree, GivesBackWhatWasPutIn) {
  for (unsigned i : {0u, 1u, 63u, 64u, 69u}) {
    call(tree_call::set_mask, i, 0x8000000000000101);
    EXPECT_EQ(leaf(i), 0x8000000000000101u);
    EXPECT_TRUE(marked(i));
    EXPECT_EQ(call(tree_call::take, i, 0x100), 1u);
    EXPECT_EQ(call(tree_call::take, i, 0x100), 0u) << "taken before";
    EXPECT_EQ(call(tree_call::take, i, 0x2), 0u) << "never there";
    EXPECT_EQ(leaf(i), 0x8000000000000001u);
  }
}

TEST_F(BitmapTree, TakesOfAMaskTheBitsThatAreThere) {
  for (tree_call const take : {tree_call::take_mask, tree_call::take_leaf_only}) {
    call(tree_call::set_mask, 5, 0b110110);
    EXPECT_EQ(call(take, 5, 0b011110), 0b010110u);
    EXPECT_FALSE(emptied());
    EXPECT_EQ(leaf(5), 0b100000u);
    EXPECT_TRUE(marked(5));
    EXPECT_EQ(call(take, 5, 0b011110), 0u);
    EXPECT_FALSE(emptied());
    EXPECT_EQ(leaf(5), 0b100000u);
  }
}

TEST_F(BitmapTree, KnowsWhetherThereIsAny) {
  EXPECT_EQ(call(tree_call::maybe_any), 0u);
  for (unsigned i : {0u, 63u, 64u, 69u}) {
    call(tree_call::set_mask, i, 1);
    EXPECT_EQ(call(tree_call::maybe_any), 1u) << "leaf " << i;
    EXPECT_EQ(call(tree_call::take, i, 1), 1u);
    EXPECT_FALSE(marked(i));
    EXPECT_EQ(call(tree_call::maybe_any), 0u) << "leaf " << i;
  }
}

TEST_F(BitmapTree, ATakeOfTheLeafAloneLeavesAStaleSummaryBit) {
  for (unsigned i : {3u, 66u}) {
    call(tree_call::set_mask, i, 0b11);
    EXPECT_EQ(call(tree_call::take_leaf_only, i, 0b11), 0b11u);
    EXPECT_TRUE(emptied());
    EXPECT_TRUE(marked(i));
    EXPECT_EQ(call(tree_call::maybe_any), 1u);
    call(tree_call::clear_stale, i);
    EXPECT_FALSE(marked(i));
    EXPECT_EQ(call(tree_call::maybe_any), 0u);
  }
}

TEST_F(BitmapTree, AnErasedBitIsGoneAndOthersStay) {
  call(tree_call::set_mask, 65, 0b110);
  call(tree_call::erase, 65, 0b010);
  EXPECT_EQ(leaf(65), 0b100u);
  call(tree_call::erase, 65, 0b010);
  EXPECT_EQ(leaf(65), 0b100u) << "erased before";
  call(tree_call::erase, 65, 0b100);
  EXPECT_EQ(leaf(65), 0u);
  call(tree_call::clear_stale, 65);
  EXPECT_EQ(call(tree_call::maybe_any), 0u);
}

TEST_F(BitmapTree, ClearsASummaryBitOverAnEmptyLeafOnly) {
  std::vector<bitmap_tree::word> leaves(num_leaves);
  leaves[68] = 1;
  std::vector<bool> summary(num_leaves);
  summary[7] = summary[66] = summary[68] = true;
  memory.write(leaves, summary);
  call(tree_call::clear_stale, 7);
  EXPECT_FALSE(marked(7));
  EXPECT_TRUE(marked(68));
  call(tree_call::clear_stale, 68);
  EXPECT_TRUE(marked(68)) << "the leaf is not empty";
  call(tree_call::clear_stale, 66);
  EXPECT_FALSE(marked(66));
  EXPECT_TRUE(marked(68)) << "another leaf of the middle word is not empty";
  call(tree_call::take, 68, 1);
  EXPECT_EQ(call(tree_call::maybe_any), 0u);
}

TEST(BitmapTreeSize, CountsLeavesAndSummaries) {
  EXPECT_EQ(bitmap_tree::leaves_for(1), 1u);
  EXPECT_EQ(bitmap_tree::leaves_for(64), 1u);
  EXPECT_EQ(bitmap_tree::leaves_for(65), 2u);
  EXPECT_EQ(bitmap_tree::leaves_for(1u << 19), 8192u);
  struct {
    unsigned leaves, mids, tops;
  } const table[] = {{1, 1, 0}, {64, 1, 0}, {65, 2, 1}, {4096, 64, 1}, {4097, 65, 2}, {8192, 128, 2}};
  for (auto const& row : table) {
    EXPECT_EQ(bitmap_tree::mids_for(row.leaves), row.mids) << row.leaves;
    EXPECT_EQ(bitmap_tree::tops_for(row.leaves), row.tops) << row.leaves;
    EXPECT_EQ(bitmap_tree::words_for(row.leaves, 1), row.leaves + row.mids + row.tops);
    EXPECT_EQ(bitmap_tree::words_for(row.leaves, 16), row.leaves * 16 + row.mids + row.tops);
  }
}

// The shares that bit_for_each() gives `lanes` lanes from bit `from` on; it moves `from` on.
std::vector<bitmap_tree::share> shares_of(std::vector<bitmap_tree::word> const& leaves, std::vector<bool> const& marked, unsigned lanes,
                                          unsigned& from) {
  unsigned const num_leaves = static_cast<unsigned>(leaves.size()), num_mids = bitmap_tree::mids_for(num_leaves), start = from / 64;
  // Of as many middle words as there are lanes, the first one's part before the start last, if there are lanes to spare.
  std::vector<unsigned> looked_at;
  for (unsigned k = 0; k < std::min(lanes, num_mids + 1); ++k) {
    unsigned const m = (start / 64 + k) % num_mids;
    for (unsigned leaf = m * 64; leaf < std::min(num_leaves, m * 64 + 64); ++leaf) {
      if (marked[leaf] && (k != 0 || leaf >= start) && (k != num_mids || leaf < start)) looked_at.push_back(leaf);
    }
  }
  unsigned next = looked_at.size() >= lanes ? (looked_at[lanes - 1] + 1) % num_leaves * 64
                  : lanes <= num_mids       ? (start / 64 + lanes) % num_mids * 64 * 64
                                            : start * 64;
  if (looked_at.size() > lanes) looked_at.resize(lanes);
  std::vector<unsigned> bits;
  std::vector<bitmap_tree::share> shares(lanes);
  for (unsigned k = 0; k < looked_at.size(); ++k) {
    unsigned const leaf = looked_at[k];
    if (leaves[leaf] == 0) shares[k].empty_leaf = leaf;
    for (unsigned b = leaf == start && k == 0 ? from % 64 : 0; b < 64; ++b) {
      if ((leaves[leaf] >> b & 1) != 0) bits.push_back(leaf * 64 + b);
    }
  }
  for (unsigned lane = 0; lane < std::min<std::size_t>(lanes, bits.size()); ++lane) shares[lane].bit = bits[lane];
  if (bits.size() >= lanes) next = (bits[lanes - 1] + 1) % (num_leaves * 64);
  from = next;
  return shares;
}

TEST(BitmapTreeSearch, GivesEachLaneABitInOrderAndGoesOnBehind) {
  test::rng random{6};
  constexpr unsigned rounds = 40;
  test::device_array<bitmap_tree::share> out{rounds * simt::warp_lanes};
  test::device_array<unsigned> ends{rounds * simt::warp_lanes};
  for (unsigned num_leaves : {1u, 3u, 64u, 65u, 130u, 2048u, 4100u}) {
    for (unsigned i = 0; i < 40; ++i) {
      unsigned const one_in = i % 3 == 0 ? 2 : i % 3 == 1 ? 40 : 3000, lanes = i % 5 == 0 ? 1 + random.below(31) : i % 5 == 1 ? 1 : 32;
      std::vector<bool> marked(num_leaves);
      std::vector<bitmap_tree::word> leaves(num_leaves);
      for (unsigned k = 0; k < num_leaves; ++k) {
        marked[k] = random.below(one_in) == 0;
        // Nothing, one bit, or many.
        if (marked[k] && random.below(4) != 0)
          leaves[k] = random.below(2) == 0 ? bitmap_tree::word{1} << random.below(64) : ~bitmap_tree::word{0} << random.below(64);
      }
      tree_memory<> memory{num_leaves, 1};
      memory.write(leaves, marked);
      unsigned from = random.below(num_leaves * 64);
      gpuheap::launch(lanes, bits_for_lanes{memory.view(), from, rounds, out.data(), ends.data()}, {.block_threads = 32});
      auto const got = out.read();
      auto const ended = ends.read();
      for (unsigned round = 0; round < rounds; ++round) {
        unsigned const began = from;
        auto const expected = shares_of(leaves, marked, lanes, from);
        for (unsigned lane = 0; lane < lanes; ++lane) {
          auto const& mine = got[round * lanes + lane];
          std::string const what = std::to_string(num_leaves) + " leaves, lane " + std::to_string(lane) + " of " + std::to_string(lanes) +
                                   " from " + std::to_string(began);
          ASSERT_EQ(mine.bit, expected[lane].bit) << what;
          ASSERT_EQ(mine.empty_leaf, expected[lane].empty_leaf) << what;
          ASSERT_EQ(ended[round * lanes + lane], from) << what;
        }
      }
    }
  }
}

TEST(BitmapTreeSearch, VisitsMarkedLeavesInOrderFromTheStartAndAround) {
  test::rng random{5};
  for (unsigned num_leaves : {1u, 3u, 64u, 65u, 130u, 4096u, 4100u, 8192u}) {
    for (unsigned i = 0; i < 60; ++i) {
      unsigned const one_in = i % 3 == 0 ? 2 : i % 3 == 1 ? 40 : 3000;
      std::vector<bool> marked(num_leaves);
      for (unsigned k = 0; k < num_leaves; ++k) marked[k] = random.below(one_in) == 0;
      if (i == 0) marked.assign(num_leaves, true);
      if (i == 1) marked.assign(num_leaves, false);
      unsigned const start = i % 7 == 0 ? num_leaves - 1 : i % 7 == 1 ? 0 : random.below(num_leaves);
      unsigned const most = i % 4 == 0 ? 1 + random.below(5) : ~0u;
      std::vector<unsigned> expected;
      for (unsigned k = 0; k < num_leaves && expected.size() != most; ++k) {
        unsigned const leaf = (start + k) % num_leaves;
        if (marked[leaf]) expected.push_back(leaf);
      }
      bool const stops = expected.size() == most;

      tree_memory<> memory(num_leaves);
      memory.write(std::vector<bitmap_tree::word>(num_leaves), marked);
      test::device_array<unsigned> out(num_leaves + 2);
      gpuheap::launch(1, visit_leaves{memory.view(), start, most, out.data()});
      auto const seen = out.read();
      ASSERT_EQ(std::vector<unsigned>(seen.begin() + 2, seen.begin() + 2 + seen[0]), expected) << num_leaves << " leaves from " << start;
      ASSERT_EQ(seen[1] != 0, stops);
    }
  }
}

// Kernel: what the ordered searches answer from `from` on, or up to it.
struct ask_in_order {
  bitmap_tree tree;
  unsigned from, n;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const {
    out[0] = tree.successor(from);
    out[1] = tree.successor(from, true);
    out[2] = tree.predecessor(from);
    out[3] = tree.contains(from);
    out[4] = tree.find_run(n, tree.num_leaves * 64);
    out[5] = tree.find_run(n, from);
  }
};
// Bits with runs of ones and zeros of about `length`.
[[nodiscard]] std::vector<bool> bits_in_runs(unsigned num_bits, unsigned length, test::rng& random) {
  std::vector<bool> bits;
  for (bool value = random.below(2) == 0; bits.size() < num_bits; value = !value)
    bits.insert(bits.end(), 1 + random.below(2 * length), value);
  bits.resize(num_bits);
  return bits;
}
// The first of the highest n ones in a row below `end`.
[[nodiscard]] unsigned highest_run(std::vector<bool> const& bits, unsigned n, unsigned end) {
  unsigned ones = 0;
  for (unsigned bit = end; bit-- != 0;) {
    ones = bits[bit] ? ones + 1 : 0;
    if (ones == n) return bit;
  }
  return bitmap_tree::none;
}
[[nodiscard]] std::vector<bitmap_tree::word> as_leaves(std::vector<bool> const& bits) {
  std::vector<bitmap_tree::word> leaves(bits.size() / 64);
  for (std::size_t bit = 0; bit < bits.size(); ++bit) leaves[bit / 64] |= bitmap_tree::word{bits[bit]} << (bit % 64);
  return leaves;
}

TEST(BitmapTreeOrder, FindsNeighboursAndRunsAsASearchThroughAllBitsDoes) {
  test::rng random{7};
  for (unsigned num_leaves : {1u, 2u, 64u, 65u, 4100u}) {
    for (unsigned i = 0; i < 80; ++i) {
      unsigned const num_bits = num_leaves * 64;
      std::vector<bool> bits = bits_in_runs(num_bits, i % 3 == 0 ? 2 : i % 3 == 1 ? 40 : 3000, random);
      if (i < 2) bits.assign(num_bits, i == 0);
      unsigned const from = i % 5 == 0 ? 0 : i % 5 == 1 ? num_bits - 1 : random.below(num_bits);
      unsigned const n = i % 4 == 0 ? 1 : i % 4 == 1 ? 64 : 1 + random.below(i % 4 == 2 ? 10 : 300);
      unsigned next = bitmap_tree::none, before = bitmap_tree::none;
      for (unsigned bit = num_bits; bit-- != from;) next = bits[bit] ? bit : next;
      for (unsigned bit = 0; bit <= from; ++bit) before = bits[bit] ? bit : before;

      tree_memory<> memory(num_leaves);
      memory.write(as_leaves(bits));
      test::device_array<unsigned> out(6);
      gpuheap::launch(1, ask_in_order{memory.view(), from, n, out.data()});
      auto const said = out.read();
      ASSERT_EQ(said[0], next) << num_leaves << " leaves from " << from;
      ASSERT_EQ(said[1], next) << num_leaves << " leaves from " << from;
      ASSERT_EQ(said[2], before) << num_leaves << " leaves from " << from;
      ASSERT_EQ(said[3] != 0, bits[from]);
      ASSERT_EQ(said[4], highest_run(bits, n, num_bits)) << n << " bits of " << num_leaves << " leaves";
      ASSERT_EQ(said[5], highest_run(bits, n, from)) << n << " bits below " << from;
    }
  }
}

// Kernel: claims until nothing is left, runs of n bits or single ones, and writes down what it got.
struct claim_all {
  bitmap_tree tree;
  unsigned n, from;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned got = 0;
    for (unsigned first; (first = n != 0 ? tree.claim_run(n) : tree.claim(from)) != bitmap_tree::none;) out[1 + got++] = first;
    out[0] = got;
  }
};
TEST(BitmapTreeOrder, ClaimsTheFirstBitFromAPlaceOnAndTheLastRun) {
  test::rng random{11};
  for (unsigned n : {0u, 1u, 2u, 5u, 63u, 64u, 65u, 130u}) {
    for (unsigned num_leaves : {1u, 3u, 70u}) {
      std::vector<bool> bits = bits_in_runs(num_leaves * 64, n < 10 ? 10 : 120, random);
      tree_memory<> memory(num_leaves);
      memory.write(as_leaves(bits));
      unsigned const from = random.below(num_leaves * 64);
      test::device_array<unsigned> out(num_leaves * 64 + 1);
      gpuheap::launch(1, claim_all{memory.view(), n, from, out.data()});
      auto const said = out.read();
      std::vector<unsigned> expected;
      for (unsigned bit = from; n == 0 && bit < bits.size(); ++bit) {
        if (!bits[bit]) continue;
        expected.push_back(bit);
        bits[bit] = false;
      }
      for (unsigned first; n != 0 && (first = highest_run(bits, n, num_leaves * 64)) != bitmap_tree::none;) {
        expected.push_back(first);
        for (unsigned k = 0; k < n; ++k) bits[first + k] = false;
      }
      ASSERT_EQ(std::vector<unsigned>(said.begin() + 1, said.begin() + 1 + said[0]), expected) << "runs of " << n;
      EXPECT_EQ(memory.leaves(), as_leaves(bits));
      EXPECT_EQ(memory.problem(), "");
    }
  }
}
// Kernel: takes three runs, the first of which is not all there, and puts the others back.
struct take_runs {
  bitmap_tree tree;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned) const {
    out[0] = tree.take_run(60, 80);
    out[1] = tree.take_run(60, 24);
    out[2] = tree.take_run(85, 51);
    tree.set_run(60, 24);
    tree.set_run(85, 51);
  }
};
TEST(BitmapTreeOrder, ARunIsTakenWholeOrNotAtAll) {
  tree_memory<> memory(3);
  std::vector<bitmap_tree::word> const leaves{~bitmap_tree::word{0}, ~bitmap_tree::word{0} & ~(bitmap_tree::word{1} << 20), 0xff};
  memory.write(leaves);
  test::device_array<unsigned> out(3);
  gpuheap::launch(1, take_runs{memory.view(), out.data()});
  EXPECT_EQ(out.read(), (std::vector<unsigned>{139, bitmap_tree::none, bitmap_tree::none}));
  EXPECT_EQ(memory.leaves(), leaves);
  EXPECT_EQ(memory.problem(), "");
}
// Kernel, one thread: claims until nothing is left, always from the same place on.
struct claim_any_until_none {
  bitmap_tree tree;
  unsigned from;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned got = 0;
    for (unsigned bit; (bit = tree.claim_any(from)) != bitmap_tree::none;) out[1 + got++] = bit;
    out[0] = got;
  }
};
TEST(BitmapTreeOrder, AnyBitIsTheNextOfItsLeafIfThereIsOne) {
  test::rng random{13};
  for (unsigned num_leaves : {1u, 3u, 70u, 4100u}) {
    std::vector<bool> bits = bits_in_runs(num_leaves * 64, 20, random);
    unsigned const leaf = num_leaves / 2, from = leaf * 64 + 37;
    bits[from + 3] = bits[from - 5] = true;
    tree_memory<> memory(num_leaves);
    memory.write(as_leaves(bits));
    test::device_array<unsigned> out(num_leaves * 64 + 1);
    gpuheap::launch(1, claim_any_until_none{memory.view(), from, out.data()});
    auto const said = out.read();
    unsigned got = 1;
    for (unsigned k = 0; k < 64; ++k) {
      unsigned const bit = leaf * 64 + (from + k) % 64;
      if (!bits[bit]) continue;
      ASSERT_EQ(said[got++], bit) << num_leaves << " leaves";
      bits[bit] = false;
    }
    for (; got <= said[0]; ++got) {
      ASSERT_TRUE(bits[said[got]]) << said[got];
      bits[said[got]] = false;
    }
    EXPECT_EQ(bits, std::vector<bool>(bits.size(), false)) << "a bit was left";
    EXPECT_EQ(memory.problem(), "");
  }
}
TEST(BitmapTreeOrder, EveryThreadGetsABitWhereThereAreEnough) {
  EXPECT_EQ(all_bits_are_claimed<bitmap_tree>(many_threads, 128, 64), "");
  EXPECT_EQ(all_bits_are_claimed<bitmap_tree>(many_threads, 4200, 2), "");
  expect_passes(500, [] { return all_bits_are_claimed<bitmap_tree>(explored_threads, 3, 64); });
  expect_passes(500, [] { return all_bits_are_claimed<bitmap_tree>(explored_threads, 70, 3); });
}
TEST(BitmapTreeOrder, ClaimsAreApartUnderManySchedules) {
  EXPECT_EQ(claims_are_apart<bitmap_tree>(many_threads, 500, 90, 10), "");
  expect_passes(1500, [] { return claims_are_apart<bitmap_tree>(explored_threads, 70, 9, 4); });
  expect_passes(300, [] { return claims_are_apart<bitmap_tree>(explored_threads, 64 * 66, 3000, 3); });
}

// Leaves under one middle word, without a top word and with one; and each leaf under a middle word of its own.
constexpr leaves_in_play together{2}, apart{2, 128}, far_apart{2, 4096};

TEST(BitmapTreeContention, KeepsEveryBitAndItsInvariant) {
  EXPECT_EQ(bits_change_hands<bitmap_tree>(many_threads, together, 3, 40), "") << "leaves that become empty all the time";
  EXPECT_EQ(bits_change_hands<bitmap_tree>(many_threads, {3, 70}, 2, 40), "") << "middle words that become empty all the time";
  EXPECT_EQ(bits_change_hands<bitmap_tree>(many_threads, {70}, 40, 40, 16), "") << "leaves apart";
}
TEST(BitmapTreeContention, KeepsEveryBitAndItsInvariantUnderManySchedules) {
  expect_passes(2000, [] { return bits_change_hands<bitmap_tree>(explored_threads, together, 2, 5); });
  expect_passes(1500, [] { return bits_change_hands<bitmap_tree>(explored_threads, apart, 2, 5); });
  expect_passes(300, [] { return bits_change_hands<bitmap_tree>(explored_threads, {66}, 1, 5, 2); });
  expect_passes(30, [] { return bits_change_hands<bitmap_tree>(explored_threads, far_apart, 1, 5); });
}
TEST(BitmapTreeContention, ShowsAFinishedSetToWhoeverSetIt) {
  EXPECT_EQ(finished_sets_are_seen<bitmap_tree>(many_threads, {70}), "");
  EXPECT_EQ(finished_sets_are_seen<bitmap_tree>(many_threads, {66, 65}), "");
  expect_passes(1000, [] { return finished_sets_are_seen<bitmap_tree>(explored_threads, {3}); });
  expect_passes(1000, [] { return finished_sets_are_seen<bitmap_tree>(explored_threads, {3, 64}); });
}
TEST(BitmapTreeContention, ShowsABitToEverySearchThatNoTakeCrossed) {
  EXPECT_EQ(undisturbed_searches_find_the_bit<bitmap_tree>(many_threads, {3}, 10), "");
  EXPECT_EQ(undisturbed_searches_find_the_bit<bitmap_tree>(many_threads, {3, 70}, 10), "");
  expect_passes(2000, [] { return undisturbed_searches_find_the_bit<bitmap_tree>(12, {3}, 6); });
  expect_passes(2000, [] { return undisturbed_searches_find_the_bit<bitmap_tree>(12, {3, 64}, 6); });
}
TEST(BitmapTreeContention, KnowsThatAnEmptiedTreeHasNothing) {
  EXPECT_EQ(an_emptied_tree_has_nothing<bitmap_tree>(many_threads, {3}, 10), "");
  EXPECT_EQ(an_emptied_tree_has_nothing<bitmap_tree>(many_threads, {3, 70}, 10), "");
  expect_passes(1000, [] { return an_emptied_tree_has_nothing<bitmap_tree>(4, {3, 64}, 3); });
}

}  // namespace
}  // namespace structures_test
