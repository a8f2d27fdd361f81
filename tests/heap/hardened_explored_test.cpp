// A hardened heap under many schedules, half of them with weak memory (hardened_scenarios.hpp).
#include "hardened_scenarios.hpp"

namespace {

using namespace hardened_scenarios;

TEST(HardenedExplored, OfTwoWarpsThatFreeOneRowEachBlockIsFreedByOne) {
  auto const result = explore_two_warps_that_free_one_row<begin_bits>(num_seeds(300));
  EXPECT_TRUE(result) << "seed " << result.seed << ": " << result.what;
}
TEST(HardenedExplored, ASecondFreeWhileTheSpanEndsChangesNothing) {
  auto const result = explore_the_end_of_a_span<begin_bits>(num_seeds(1000));
  EXPECT_TRUE(result) << "seed " << result.seed << ": " << result.what;
}
TEST(HardenedExplored, WrongFreesBesideRequestsFreeEachBlockOnce) {
  auto const result = explore_frees_beside_requests<begin_bits>(num_seeds(400));
  EXPECT_TRUE(result) << "seed " << result.seed << ": " << result.what;
}
TEST(HardenedExplored, AResizeAndAFreeOfOneBlockTouchNoOther) {
  auto const result = explore_a_resize_of_what_is_freed<begin_bits>(num_seeds(1000));
  EXPECT_TRUE(result) << "seed " << result.seed << ": " << result.what;
}

}  // namespace
