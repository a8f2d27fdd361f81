// The library's own allocator in heaps that grow, and its blocks resized where they are.
#include <algorithm>

#include "fixtures.hpp"

#include "../support/blocks.hpp"

namespace {

using namespace test;
using gpuheap::growth;
using heap_t = gpuheap::heap<>;

static_assert(gpuheap::has_grow<gpuheap::sharded_spans> && gpuheap::has_trim<gpuheap::sharded_spans>);

std::size_t failed_requests_in(std::vector<void*> const& pointers) {
  return static_cast<std::size_t>(std::count(pointers.begin(), pointers.end(), nullptr));
}
std::size_t served(heap_t& heap, unsigned threads, std::size_t bytes) {
  return threads - failed_requests_in(blocks_of(heap, threads, bytes));
}

TEST(OwnGrowth, BeginsSmallAndReservesTheRest) {
  heap_t heap{growth{.initial = 16_MiB, .at_most = 1_GiB}};
  EXPECT_EQ(heap.capacity(), 16_MiB);
  EXPECT_EQ(heap.at_most(), 1_GiB);
  EXPECT_LE(heap.bytes(), 32_MiB) << "the parts' rounding and the records";
  auto const stats = heap.stats();
  EXPECT_LE(stats.usable_bytes, 16_MiB);
  EXPECT_GE(stats.usable_bytes, 8_MiB);
  EXPECT_EQ(stats.held_bytes, 0u);
  EXPECT_EQ(served(heap, 2000, 4096), 2000u);
  EXPECT_LT(served(heap, 4000, 4096), 4000u);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(OwnGrowth, DefaultsSuitTheDevice) {
  heap_t heap{growth{}};
  EXPECT_EQ(heap.capacity(), 64_MiB);
  EXPECT_GE(heap.at_most(), gpuheap::memory::device.query()->total_bytes);
  EXPECT_EQ(served(heap, 1000, 100), 1000u);
  heap.grow(64_MiB);
  EXPECT_EQ(served(heap, 1000, 10000), 1000u);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(OwnGrowth, KeepsBlocksAndViewsWhereTheyAre) {
  heap_t heap{growth{.initial = 8_MiB, .at_most = 512_MiB}};
  auto const ref = heap.ref();
  blocks<heap_t::ref_type> first{ref, 1000, 1000};
  first.malloc_all();
  first.fill();
  ASSERT_EQ(first.failed_requests(), 0u);
  for (unsigned round = 0; round < 3; ++round) {
    heap.grow(20_MiB);
    blocks<heap_t::ref_type> more{ref, 4000, 4096};  // the view made before
    more.malloc_all();
    more.fill();
    EXPECT_EQ(more.failed_requests(), 0u) << "round " << round;
    more.expect_sound(16, {});
    more.expect_intact("in a heap that has grown");
    first.expect_intact("as the heap grew");
    auto const found = heap.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, 1000u + 4000u * (round + 1));
  }
  EXPECT_EQ(heap.stats().live_allocations, 13'000u);
  EXPECT_LE(heap.stats().held_bytes, heap.stats().usable_bytes);
}

TEST(OwnGrowth, ServesWhatDidNotFitBefore) {
  heap_t heap{growth{.initial = 8_MiB, .at_most = 256_MiB}};
  EXPECT_EQ(served(heap, 1, 40_MiB), 0u);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  heap.grow(56_MiB);
  EXPECT_EQ(served(heap, 1, 40_MiB), 1u) << "one block over many of the segments that came";
  EXPECT_EQ(heap.verify().large_allocations, 1u);
  heap.grow(heap.at_most() - heap.capacity());
  EXPECT_GE(served(heap, 1, 170_MiB), 1u);
  EXPECT_NO_THROW(heap.check());
}

TEST(OwnGrowth, GrowsByItselfUntilAllAreServed) {
  heap_t heap{growth{.initial = 8_MiB, .at_most = 256_MiB}};
  heap.grow_when_exhausted({.factor = 2});
  unsigned const threads = 10'000;
  unsigned launches = 0;
  std::size_t missing = threads;
  do {
    missing -= served(heap, static_cast<unsigned>(missing), 4096);
    ++launches;
  } while (heap.check() != 0);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(launches, 4u);
  EXPECT_EQ(heap.capacity(), 64_MiB);
  EXPECT_EQ(heap.stats().live_allocations, threads);
}

TEST(OwnGrowth, TrimGivesBackWhatNothingLivesIn) {
  heap_t heap{growth{.initial = 8_MiB, .at_most = 512_MiB}};
  heap.grow(192_MiB);
  blocks<heap_t::ref_type> stay{heap.ref(), 100, 1000};
  stay.malloc_all();
  stay.fill();
  auto go = blocks_of(heap, 20'000, 4096);
  auto const large = blocks_of(heap, 4, 10_MiB);
  EXPECT_EQ(failed_requests_in(go) + failed_requests_in(large), 0u);
  go.insert(go.end(), large.begin(), large.end());
  std::size_t const peak = heap.stats().peak_held_bytes;
  heap.free(go);
  std::size_t const before = heap.bytes(), capacity = heap.capacity();
  std::size_t const back = heap.trim();
  EXPECT_GT(back, 100_MiB);
  EXPECT_EQ(heap.bytes(), before - back);
  EXPECT_LT(heap.capacity(), capacity - 100_MiB);
  EXPECT_EQ(heap.trim(), 0u);
  EXPECT_GE(heap.stats().peak_held_bytes, peak);
  EXPECT_EQ(heap.verify().problem, "");
  stay.expect_intact("as the heap was trimmed");
  heap.grow(100_MiB);
  blocks<heap_t::ref_type> again{heap.ref(), 20'000, 4096};
  again.malloc_all();
  again.fill();
  EXPECT_EQ(again.failed_requests(), 0u);
  again.expect_intact("in memory that came back");
  stay.expect_intact("as the heap grew again");
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(OwnGrowth, ResetKeepsTheSize) {
  heap_t heap{growth{.initial = 8_MiB, .at_most = 256_MiB}};
  heap.grow(24_MiB);
  std::size_t const bytes = heap.bytes();
  EXPECT_LT(served(heap, 10'000, 4096), 10'000u);
  heap.reset();
  EXPECT_EQ(heap.capacity(), 32_MiB);
  // Metadata is laid out anew, for a heap that begins with so much.
  EXPECT_GE(heap.bytes(), bytes);
  // Each of its parts is mapped in whole pieces: of 2 MiB on a GPU.
  EXPECT_LE(heap.bytes(), heap.capacity() + 8_MiB);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
  EXPECT_EQ(served(heap, 6000, 4096), 6000u);
  EXPECT_EQ(heap.verify().problem, "");
  heap.reset();
  EXPECT_GT(heap.trim(), 0u);
  std::size_t const capacity = heap.capacity();
  heap.reset();
  EXPECT_EQ(heap.capacity(), capacity);
  EXPECT_EQ(served(heap, 1, 100), 1u);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(OwnGrowth, TooLittleToBeginWithSaysHowMuchIsEnough) {
  EXPECT_TRUE(says(
      text_of_error([] { heap_t heap{growth{.initial = 1_MiB, .at_most = 64_GiB}}; }),
      "for a heap that grows to 64.0 GiB, growth::initial of 1.0 MiB is too small for the allocator 'sharded_spans': it needs at least"));
  EXPECT_TRUE(
      says(text_of_error([] { heap_t heap{growth{.initial = 100, .at_most = 64_GiB}}; }), "too small for the allocator 'sharded_spans'"));
}
TEST(OwnGrowth, BeginsWithWhatItSaysIsEnough) {
  for (std::size_t const most : {1_MiB, 3_MiB + 12345, 64_MiB, 1_GiB, 64_GiB}) {
    std::size_t const least = heap_t::min_bytes(growth{.at_most = most});
    ASSERT_LE(least, most);
    heap_t heap{growth{.initial = least, .at_most = most}};
    EXPECT_EQ(served(heap, 1, 16), 1u) << most;
    EXPECT_EQ(heap.verify().problem, "") << most;
    EXPECT_THROW((heap_t{growth{.initial = least - 200_KiB < least ? least - 200_KiB : 1, .at_most = most}}), gpuheap::error) << most;
  }
}

TEST(OwnGrowth, ByPolicyItEndsAndIsNotForWhatCannotFit) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 4_MiB}};
  heap.grow_when_exhausted({.bytes = 1});
  // More than a heap of 4 MiB ever has: no step.
  EXPECT_EQ(served(heap, 1, 1024_GiB), 0u);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  EXPECT_EQ(served(heap, 1, 4_MiB), 0u);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  EXPECT_EQ(heap.stats().invalid_requests, 2u);
  EXPECT_EQ(heap.capacity(), 1_MiB);
  // Steps of a byte, each rounded up to what adds something; until the heap has its most.
  std::size_t grown = 0, launches = 0;
  try {
    do {
      (void)served(heap, 100, 16'000);
      std::size_t const before = heap.stats().usable_bytes, step = heap.check();
      EXPECT_TRUE(step == 0 || heap.stats().usable_bytes > before) << "grown by " << step;
      grown += step;
      ++launches;
      ASSERT_LT(launches, 1000u);
    } while (grown != 0);
  } catch (gpuheap::out_of_memory const& e) {
    EXPECT_TRUE(says(e.what(), "it has all of growth::at_most that the allocator can use"));
  }
  EXPECT_GT(grown, 2_MiB);
}

TEST(OwnGrowth, WhatTheDeviceDoesNotHaveChangesNothing) {
  std::size_t const total = gpuheap::memory::device.query()->total_bytes;
  if (total > 150_GiB) GTEST_SKIP() << "more memory than a GPU has: this allocator's heaps have at most 256 GiB: use a smaller GPU";
  heap_t heap{growth{.initial = 128_MiB, .at_most = 2 * total}};
  std::size_t const bytes = heap.bytes();
  EXPECT_THROW(heap.grow(3 * (total / 2)), gpuheap::out_of_memory);
  EXPECT_EQ(heap.capacity(), 128_MiB);
  EXPECT_EQ(served(heap, 900, 4096), 900u);
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_LE(heap.bytes(), bytes + total / 32) << "metadata at most";
}

// ---- realloc in place

template <class Ref>
struct reallocate {
  Ref heap;
  void** blocks;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.realloc(blocks[i], bytes); }
};
struct write_word {
  void* const* blocks;
  std::size_t at;
  GPUHEAP_FN void operator()(unsigned i) const { simt::plain_write(static_cast<unsigned*>(blocks[i])[at / 4], i + 77); }
};

// One block, its size changed by a kernel each time.
class one_block {
 public:
  explicit one_block(heap_t& heap) : heap_{heap}, pointer_(1) {}
  void* resize(std::size_t bytes) {
    gpuheap::launch(1, reallocate<heap_t::ref_type>{heap_.ref(), pointer_.data(), bytes});
    return pointer_.first();
  }
  void write(std::size_t at) { gpuheap::launch(1, write_word{pointer_.data(), at}); }
  unsigned read(std::size_t at) {
    unsigned word = 0;
    heap_.copy_to_host(&word, static_cast<char*>(pointer_.first()) + at, sizeof word);
    return word;
  }

 private:
  heap_t& heap_;
  device_array<void*> pointer_;
};

TEST(OwnRealloc, WholeSegmentsGrowAndShrinkInPlace) {
  heap_t heap{64_MiB};  // segments of 32 KiB
  one_block block{heap};
  void* const high = block.resize(1_MiB);
  block.write(1_MiB - 4);
  // Large blocks come from the top: nothing is behind it.
  void* const p = block.resize(3_MiB);
  EXPECT_NE(p, high);
  EXPECT_EQ(block.read(1_MiB - 4), 77u) << "moved with its contents";
  // The block's old place is free now, and so is the memory right behind it.
  EXPECT_EQ(block.resize(4_MiB), p);
  EXPECT_EQ(heap.stats().live_bytes, 4_MiB);
  block.write(4_MiB - 4);
  EXPECT_EQ(block.resize(5_MiB / 2), p);
  EXPECT_EQ(heap.stats().live_bytes, 5_MiB / 2);
  EXPECT_EQ(heap.stats().held_bytes, 5_MiB / 2) << "the tail is free";
  EXPECT_EQ(block.resize(100_KiB), p) << "much less is given back in place as well";
  EXPECT_GE(heap.stats().held_bytes, 100_KiB);
  EXPECT_LE(heap.stats().held_bytes, 128_KiB);
  EXPECT_EQ(block.resize(4_MiB), p);
  EXPECT_EQ(heap.stats().live_allocations, 1u);
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_NE(block.resize(64), p) << "from segments into a slot";
  EXPECT_EQ(heap.stats().live_bytes, 64u);
  EXPECT_EQ(block.resize(0), nullptr);
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  EXPECT_NO_THROW(heap.check());
}

TEST(OwnRealloc, SlotsStayWhileTheyAreAtLeastHalfFull) {
  heap_t heap{8_MiB};
  one_block block{heap};
  void* const p = block.resize(1000);
  EXPECT_EQ(block.resize(1024), p);
  EXPECT_EQ(block.resize(600), p);
  EXPECT_NE(block.resize(100), p);
  void* const small = block.resize(16);
  EXPECT_EQ(block.resize(1), small) << "there is no smaller slot";
  EXPECT_EQ(heap.stats().live_bytes, 16u);
  EXPECT_EQ(heap.stats().live_allocations, 1u);
}

TEST(OwnRealloc, AFullHeapLosesNothing) {
  heap_t heap{4_MiB};
  one_block block{heap};
  void* const p = block.resize(200);
  block.write(0);
  auto const rest = blocks_of(heap, 30'000, 200);
  EXPECT_GT(failed_requests_in(rest), 0u);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory);
  EXPECT_EQ(block.resize(64), p) << "no smaller block: this one holds it";
  EXPECT_NO_THROW(heap.check()) << "which is no failure";
  gpuheap::launch(1, reallocate<heap_t::ref_type>{heap.ref(), device_array<void*>{std::vector<void*>{p}}.data(), 3000});
  EXPECT_EQ(heap.stats().failed_requests, failed_requests_in(rest) + 1);
  EXPECT_EQ(block.read(0), 77u);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(OwnRealloc, GrowsIntoSegmentsThatCameLater) {
  heap_t heap{growth{.initial = 16_MiB, .at_most = 256_MiB}};
  one_block block{heap};
  void* const p = block.resize(heap.stats().usable_bytes / 2);  // up to the end of the heap
  heap.grow(100_MiB);
  EXPECT_EQ(block.resize(90_MiB), p);
  block.write(90_MiB - 4);
  EXPECT_EQ(block.read(90_MiB - 4), 77u);
  EXPECT_EQ(block.resize(1_MiB), p);
  EXPECT_GT(heap.trim(), 80_MiB);
  EXPECT_EQ(heap.verify().problem, "");
}

}  // namespace
