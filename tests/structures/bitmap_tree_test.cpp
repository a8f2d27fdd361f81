// The bitmap tree: what its operations return, its invariant at rest after contention, and what a finished set promises.
#include "bitmap_tree_checks.hpp"

namespace structures_test {

// Kernel: one call on a tree; the answer goes to *out.
enum class tree_call { set_mask, take_mask, take, tidy, maybe_any };
struct call_tree {
  bitmap_tree tree;
  tree_call what;
  unsigned leaf;
  bitmap_tree::word mask;
  bitmap_tree::word* out;

  GPUHEAP_FN void operator()(unsigned) const {
    *out = 0;
    switch (what) {
      case tree_call::set_mask:
        tree.set_mask(leaf, mask);
        break;
      case tree_call::take_mask:
        *out = tree.take_mask(leaf, mask);
        break;
      case tree_call::take:
        *out = tree.take(leaf * 64 + simt::lowest_bit(mask));
        break;
      case tree_call::tidy:
        tree.tidy(leaf);
        break;
      case tree_call::maybe_any:
        *out = tree.maybe_any();
        break;
    }
  }
};

namespace {

// 70 leaves: two words of summary.
class BitmapTree : public testing::Test {
 protected:
  bitmap_tree::word call(tree_call what, unsigned leaf = 0, bitmap_tree::word mask = 0) {
    gpuheap::launch(1, call_tree{memory.view(), what, leaf, mask, out.data()});
    EXPECT_EQ(memory.problem(), "");
    return out.first();
  }
  [[nodiscard]] bitmap_tree::word leaf(unsigned i) const { return memory.leaves()[i]; }
  [[nodiscard]] bool marked(unsigned i) const { return (memory.summary()[i / 64] >> (i % 64) & 1) != 0; }

  static constexpr unsigned num_leaves = 70;
  tree_memory<> memory{num_leaves, 3};
  test::device_array<bitmap_tree::word> out{1};
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
  call(tree_call::set_mask, 5, 0b110110);
  EXPECT_EQ(call(tree_call::take_mask, 5, 0b011110), 0b010110u);
  EXPECT_EQ(leaf(5), 0b100000u);
  EXPECT_TRUE(marked(5));
  EXPECT_EQ(call(tree_call::take_mask, 5, 0b011110), 0u);
  EXPECT_EQ(leaf(5), 0b100000u);
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

TEST_F(BitmapTree, DropsASummaryBitOverAnEmptyLeafOnly) {
  std::vector<bitmap_tree::word> leaves(num_leaves);
  leaves[68] = 1;
  memory.write(leaves, {bitmap_tree::word{1} << 7, bitmap_tree::word{1} << 4});
  EXPECT_EQ(call(tree_call::maybe_any), 1u);
  call(tree_call::tidy, 7);
  EXPECT_FALSE(marked(7));
  EXPECT_TRUE(marked(68));
  call(tree_call::tidy, 68);
  EXPECT_TRUE(marked(68)) << "the leaf is not empty";
}

TEST(BitmapTreeSize, CountsLeavesAndSummaries) {
  EXPECT_EQ(bitmap_tree::leaves_for(1), 1u);
  EXPECT_EQ(bitmap_tree::leaves_for(64), 1u);
  EXPECT_EQ(bitmap_tree::leaves_for(65), 2u);
  EXPECT_EQ(bitmap_tree::leaves_for(1u << 18), 4096u);
  EXPECT_EQ(bitmap_tree::summaries_for(1), 1u);
  EXPECT_EQ(bitmap_tree::summaries_for(64), 1u);
  EXPECT_EQ(bitmap_tree::summaries_for(65), 2u);
  EXPECT_EQ(bitmap_tree::summaries_for(4096), 64u);
}

TEST(BitmapTreeContention, KeepsEveryBitAndItsInvariant) {
  EXPECT_EQ(bits_change_hands<bitmap_tree>(many_threads, 2, 3, 40), "") << "leaves that become empty all the time";
  EXPECT_EQ(bits_change_hands<bitmap_tree>(many_threads, 70, 40, 40, 16), "") << "leaves apart";
}
TEST(BitmapTreeContention, KeepsEveryBitAndItsInvariantUnderManySchedules) {
  expect_passes(2000, [] { return bits_change_hands<bitmap_tree>(explored_threads, 2, 2, 5); });
  expect_passes(500, [] { return bits_change_hands<bitmap_tree>(explored_threads, 66, 1, 5, 2); });
}
TEST(BitmapTreeContention, ShowsAFinishedSetToWhoeverSetIt) {
  EXPECT_EQ(finished_sets_are_seen<bitmap_tree>(many_threads, 70), "");
  expect_passes(1000, [] { return finished_sets_are_seen<bitmap_tree>(explored_threads, 3); });
}
TEST(BitmapTreeContention, ShowsABitToEverySearchThatNoTakeCrossed) {
  EXPECT_EQ(undisturbed_searches_find_the_bit<bitmap_tree>(many_threads, 3, 10), "");
  expect_passes(2000, [] { return undisturbed_searches_find_the_bit<bitmap_tree>(12, 3, 6); });
}

}  // namespace
}  // namespace structures_test
