// Copies of the bits of a hardened heap with the mistakes that they avoid: each is found. In the simulator alone.
#include "hardened_scenarios.hpp"

namespace {

using namespace hardened_scenarios;

// Looks whether the block is live, and then clears its bit.
struct looking_bits : begin_bits {
  using begin_bits::begin_bits;
  [[nodiscard]] GPUHEAP_FN bool take(simt::lane_mask here, simt::uint64_t address) const {
    bool const live = address != 0 && has(address);
    (void)begin_bits::take(here, address);
    return live;
  }
};
TEST(HardenedMutants, DetectsMutant_LooksBeforeItTakes) {
  EXPECT_FALSE(explore_frees_beside_requests<looking_bits>(400));
  EXPECT_FALSE(explore_two_warps_that_free_one_row<looking_bits>(400));
}
// Answers a whole row as one of its lanes.
struct row_bits : begin_bits {
  using begin_bits::begin_bits;
  [[nodiscard]] GPUHEAP_FN bool take(simt::lane_mask here, simt::uint64_t address) const {
    return simt::any_of(here, begin_bits::take(here, address)) && address != 0;
  }
};
TEST(HardenedMutants, DetectsMutant_AnswersForAWholeRow) { EXPECT_FALSE(explore_two_warps_that_free_one_row<row_bits>(400)); }

}  // namespace
