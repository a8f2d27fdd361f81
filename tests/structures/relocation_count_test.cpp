// The count of moves: its word, and that a search between two equal quiet looks misses nothing.
#include "relocation_count_checks.hpp"

namespace structures_test {

// Kernel: the word before, during and after a move.
struct one_move {
  relocation_count moves;
  relocation_count::word* seen;

  GPUHEAP_FN void operator()(unsigned) const {
    seen[0] = moves.read_begin();
    moves.begin();
    seen[1] = moves.read_begin();
    moves.begin();
    moves.end();
    seen[2] = moves.read_begin();
    moves.end();
    seen[3] = moves.read_begin();
    seen[4] = moves.read_end();
  }
};

namespace {

TEST(TransitCount, IsQuietBetweenMovesAndNeverTheSameAgain) {
  for (relocation_count::word start : {relocation_count::word{0}, ~relocation_count::word{0} << 32}) {
    test::device_array<relocation_count::word> state(std::vector<relocation_count::word>{start}), seen(5);
    gpuheap::launch(1, one_move{{state.data()}, seen.data()});
    auto const s = seen.read();
    EXPECT_EQ(s[0], start);
    EXPECT_TRUE(relocation_count::quiet(s[0]));
    EXPECT_FALSE(relocation_count::quiet(s[1]));
    EXPECT_FALSE(relocation_count::quiet(s[2]));
    EXPECT_TRUE(relocation_count::quiet(s[3]));
    EXPECT_NE(s[3], s[0]);
    EXPECT_EQ(s[4], s[3]);
    EXPECT_NE(s[2], s[1]);
    EXPECT_EQ(s[3], start + 2 * relocation_count::begun_one) << "modulo 2^32 moves";
  }
}

TEST(TransitCount, ASearchBetweenTwoEqualQuietLooksMissesNoMove) {
  EXPECT_EQ(certain_searches_find_the_token<two_looks>(many_threads, 4, 10), "");
  expect_passes(3000, [] { return certain_searches_find_the_token<two_looks>(6, 2, 16); });
  expect_passes(1000, [] { return certain_searches_find_the_token<two_looks>(explored_threads, 4, 6); });
}
TEST(TransitCount, WhoStopsOnlyWhenCertainLeavesNothing) {
  EXPECT_EQ(nothing_is_left_to_collect<two_looks>(512, 4, 100, 8), "");
  expect_passes(3000, [] { return nothing_is_left_to_collect<two_looks>(4, 2, 2, 8); });
}

}  // namespace
}  // namespace structures_test
