// The free slots of a block: the results of the operations, the owners under contention, and tree bits that follow.
#include "free_slots_checks.hpp"

namespace structures_test {
namespace {

TEST(FreeSlots, ChoosesFromThePlaceOnAndAround) {
  test::rng random{3};
  for (unsigned i = 0; i < 20000; ++i) {
    free_slots::word word = 0;
    for (unsigned k = random.below(64) + 1; k != 0; --k) word |= free_slots::word{1} << random.below(64);
    unsigned const n = 1 + random.below(40), start = random.below(64);
    free_slots::word expected = 0;
    for (unsigned k = 0, left = n; k < 64 && left != 0; ++k) {
      free_slots::word const bit = free_slots::word{1} << (start + k) % 64;
      if ((word & bit) == 0) continue;
      expected |= bit;
      --left;
    }
    ASSERT_EQ(free_slots::choose(word, n, start), expected) << word << ' ' << n << ' ' << start;
  }
}
TEST(FreeSlots, CountsToTheNthBit) {
  test::rng random{4};
  for (unsigned i = 0; i < 5000; ++i) {
    free_slots::word word = 0;
    for (unsigned k = random.below(64) + 1; k != 0; --k) word |= free_slots::word{1} << random.below(64);
    unsigned n = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((word >> bit & 1) == 0) continue;
      ASSERT_EQ(free_slots::nth(word, n++), bit);
    }
  }
}

// Kernel: one thread goes through all of a word's states.
struct use_alone {
  free_slots slots;
  unsigned* wrong;
  GPUHEAP_FN void require(bool holds) const {
    if (!holds) count(wrong);
  }
  GPUHEAP_FN void operator()(unsigned) const {
    require(slots.claim(1, 0).slots == 0);
    slots.open(0b11111);
    auto const two = slots.claim(2, 3);
    require(two.slots == 0b11000 && two.left == 0b00111);
    require(!slots.close(0b11111));
    require(slots.claim(9, 1).slots == 0b00111);
    require(slots.claim(1, 0).slots == 0);
    require(slots.release(0b00100) == 0 && slots.release(0b11000) == 0b00100);
    require(slots.release(0b01000) == 0b11100);  // a second time: the answer tells
    require(slots.release(0b00011) == 0b11100);
    require(!slots.close(0b01111) && slots.close(0b11111) && !slots.close(0b11111));
    require(slots.claim(1, 0).slots == 0);
  }
};
TEST(FreeSlots, GoThroughTheirStates) {
  test::device_array<free_slots::word> word(1);
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1, use_alone{{word.data()}, wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
}

TEST(FreeSlotsContention, HaveOneOwnerAtATime) {
  EXPECT_EQ(slots_change_hands<free_slots>(many_threads, 64, 3), "");
  EXPECT_EQ(slots_change_hands<free_slots>(many_threads, 5, 3), "");
}
TEST(FreeSlotsContention, HaveOneOwnerAtATimeUnderManySchedules) {
  expect_passes(1000, [] { return slots_change_hands<free_slots>(explored_threads, 64, 3); });
  expect_passes(1000, [] { return slots_change_hands<free_slots>(explored_threads, 3, 3); });
  expect_passes(500, [] { return slots_change_hands<free_slots>(8, 6, 6); });
}
TEST(FreeSlotsContention, AreFoundUnderManySchedules) {
  expect_passes(700, [] { return a_free_slot_is_found<free_slots>(explored_threads, 4); });
}

TEST(BitmapTreeSettle, BitsFollowWhatTheyStandFor) {
  EXPECT_EQ(bits_follow_the_slots<bitmap_tree>(many_threads, 7, 1, 5), "");
  EXPECT_EQ(bits_follow_the_slots<bitmap_tree>(many_threads, 3, 4096, 5), "");
  EXPECT_EQ(no_bit_stays_over_nothing<bitmap_tree>(many_threads, 20, 2), "");
}
TEST(BitmapTreeSettle, BitsFollowWhatTheyStandForUnderManySchedules) {
  expect_passes(1500, [] { return bits_follow_the_slots<bitmap_tree>(explored_threads, 3, 1, 4); });
  expect_passes(700, [] { return bits_follow_the_slots<bitmap_tree>(explored_threads, 2, 4096, 4); });
  expect_passes(1500, [] { return no_bit_stays_over_nothing<bitmap_tree>(explored_threads, 12, 2); });
}

}  // namespace
}  // namespace structures_test
