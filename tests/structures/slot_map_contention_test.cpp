// The slot map under contention: no slot has two owners, the counts are right at rest, and a span ends once, after everything in it.
#include "slot_map_checks.hpp"

namespace structures_test {
namespace {

// Two groups, the second of four words, the last of which is short.
constexpr unsigned two_groups = 67 * 63 + 20;

TEST(SlotMapContention, CountsAreThoseOfBruteForceAtRest) {
  EXPECT_EQ(slots_change_hands<slot_map>(many_threads, two_groups, 20, 8), "");
  EXPECT_EQ(slots_change_hands<slot_map>(many_threads, 20 * 4032 + 64, 20), "");
}
TEST(SlotMapContention, CountsAreThoseOfBruteForceAtRestUnderManySchedules) {
  expect_passes(400, [] { return slots_change_hands<slot_map>(explored_threads, two_groups, 6); });
  expect_passes(1000, [] { return slots_change_hands<slot_map>(explored_threads, 100, 8); });
}
TEST(SlotMapContention, TheLastFreeEndsTheSpanAndNoOther) {
  EXPECT_EQ(the_last_free_ends_the_span<slot_map>(many_threads / 8, 20 * 4032 + 64, 20), "");
}
TEST(SlotMapContention, TheLastFreeEndsTheSpanAndNoOtherUnderManySchedules) {
  expect_passes(300, [] { return the_last_free_ends_the_span<slot_map>(explored_threads / 2, two_groups, 5); });
  expect_passes(2000, [] { return the_last_free_ends_the_span<slot_map>(5, 250, 3); });
}
TEST(SlotMapContention, AShortenedSpanEndsOnceWithWhatItHasKept) {
  expect_passes(1000, [] { return a_split_span_ends<slot_map>(3, 10, 6, 2, 13); });
  expect_passes(500, [] { return a_split_span_ends<slot_map>(3, 10, 6, 6, 55); });
  expect_passes(1000, [] { return a_split_span_ends<slot_map>(5, 100, 5, 2, 150); });
  expect_passes(500, [] { return a_split_span_ends<slot_map>(5, 100, 5, 5, 450); });
  expect_passes(200, [] { return a_split_span_ends<slot_map>(explored_threads / 2, 2000, 5, 1, 1900); });
  expect_passes(200, [] { return a_split_span_ends<slot_map>(explored_threads / 2, 2000, 5, 3, 5999); });
  expect_passes(200, [] { return a_split_span_ends<slot_map>(explored_threads / 2, 4032, 3, 1, 4032); });
}
TEST(SlotMapContention, ASpanWithAFreeSlotIsListed) {
  EXPECT_EQ(a_span_with_a_free_slot_is_listed<slot_map>(many_threads, 131072), "");
  expect_passes(3000, [] { return a_span_with_a_free_slot_is_listed<slot_map>(3, 100); });
}

}  // namespace
}  // namespace structures_test
