// Size classes against plain arithmetic.
#include "../support/rng.hpp"

#include <gpuheap/structures/size_classes.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace structures_test {
namespace {

namespace classes = gpuheap::structures::size_classes;

constexpr std::uint32_t offsets_end = std::uint32_t{1} << 31;  // of slot_of

TEST(SizeClasses, EverySizeLandsInTheSmallestClassThatHoldsIt) {
  for (std::uint32_t bytes = 1; bytes <= classes::largest_bytes; ++bytes) {
    unsigned const c = classes::class_of(bytes);
    ASSERT_LT(c, classes::count) << bytes;
    ASSERT_GE(classes::slot_bytes(c), bytes);
    if (c != 0) {
      ASSERT_LT(classes::slot_bytes(c - 1), bytes);
    }
  }
}

TEST(SizeClasses, AtMostAFifthOfASlotAbove64BytesIsWasted) {
  for (std::uint32_t bytes = 65; bytes <= classes::largest_bytes; ++bytes) {
    std::uint32_t const slot = classes::slot_bytes(classes::class_of(bytes));
    ASSERT_LE((slot - bytes) * std::uint64_t{5}, slot) << bytes;
  }
}

TEST(SizeClasses, SlotsAreASmallOddFactorTimesAPowerOfTwo) {
  for (unsigned c = 0; c < classes::count; ++c) {
    std::uint32_t odd = classes::slot_bytes(c);
    EXPECT_EQ(odd % 16, 0u) << "class " << c;
    while (odd % 2 == 0) odd /= 2;
    EXPECT_TRUE(odd == 1 || odd == 3 || odd == 5 || odd == 7) << "class " << c << ": factor " << odd;
  }
}

// slot_of never decreases with the offset, so it is exact everywhere if it is exact for the first and the last byte of every slot.
bool exact_in_slot(unsigned c, std::uint32_t slot) {
  std::uint32_t const bytes = classes::slot_bytes(c), first = slot * bytes;
  return classes::slot_of(c, first) == slot && classes::slot_of(c, first + bytes - 1) == slot;
}

TEST(SizeClasses, SlotOfIsExactForEverySlotOfEveryFactor) {
  // 48, 80, 96 and 112 bytes: one class for each multiplier that is rounded, with the smallest shift and so the longest range.
  for (unsigned c : {2u, 4u, 5u, 6u}) {
    std::uint32_t const slots = offsets_end / classes::slot_bytes(c);
    std::uint32_t wrong = 0;
    for (std::uint32_t slot = 0; slot < slots; ++slot) wrong += !exact_in_slot(c, slot);
    EXPECT_EQ(wrong, 0u) << "class " << c;
    EXPECT_EQ(classes::slot_of(c, offsets_end - 1), (offsets_end - 1) / classes::slot_bytes(c)) << "class " << c;
  }
}

TEST(SizeClasses, SlotOfEqualsDivision) {
  test::rng random{1};
  for (unsigned c = 0; c < classes::count; ++c) {
    std::uint32_t const bytes = classes::slot_bytes(c);
    for (unsigned i = 0; i < 20000; ++i) {
      std::uint32_t const offset = random.below(offsets_end);
      ASSERT_EQ(classes::slot_of(c, offset), offset / bytes) << "class " << c << ", offset " << offset;
      ASSERT_TRUE(exact_in_slot(c, random.below(offsets_end / bytes))) << "class " << c;
    }
    for (std::uint32_t offset = 0; offset < 3 * bytes; offset += bytes < 4096 ? 1 : 997) {
      ASSERT_EQ(classes::slot_of(c, offset), offset / bytes) << "class " << c << ", offset " << offset;
    }
    ASSERT_EQ(classes::slot_of(c, offsets_end - 1), (offsets_end - 1) / bytes) << "class " << c;
  }
}

unsigned smallest_aligned_class(std::uint32_t bytes, std::uint32_t alignment) {
  unsigned c = 0;
  while (c < classes::count && (classes::slot_bytes(c) < bytes || classes::slot_bytes(c) % alignment != 0)) ++c;
  return c;
}

TEST(SizeClasses, AnAlignedRequestLandsInTheSmallestClassThatServesIt) {
  std::vector<std::uint32_t> sizes;
  for (unsigned c = 0; c < classes::count; ++c) {
    for (std::uint32_t near : {classes::slot_bytes(c) - 1, classes::slot_bytes(c), classes::slot_bytes(c) + 1}) sizes.push_back(near);
  }
  test::rng random{2};
  for (unsigned i = 0; i < 3000; ++i) sizes.push_back(1 + random.below(random.below(2) == 0 ? 2000 : classes::largest_bytes));
  for (std::uint32_t alignment = 1; alignment <= classes::largest_bytes; alignment *= 2) {
    for (std::uint32_t bytes : sizes) {
      ASSERT_EQ(classes::class_of_aligned(bytes, alignment), smallest_aligned_class(bytes, alignment)) << bytes << " at " << alignment;
    }
  }
}

TEST(SizeClasses, WhatNoSlotServesHasNoClass) {
  EXPECT_EQ(classes::class_of_aligned(1, classes::largest_bytes * 2), classes::count);
  EXPECT_EQ(classes::class_of_aligned(classes::largest_bytes + 1, 16), classes::count);
  EXPECT_EQ(classes::class_of_aligned(classes::largest_bytes, classes::largest_bytes), classes::count - 1);
  EXPECT_EQ(classes::class_of_aligned(classes::largest_bytes - 1, classes::largest_bytes), classes::count - 1);
}

}  // namespace
}  // namespace structures_test
