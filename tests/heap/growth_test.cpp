// Heaps that grow: by the host, by themselves after a failed launch, and back.
#include "fixtures.hpp"
#include "growing_bump.hpp"

#include "../support/blocks.hpp"

#include <algorithm>
#include <type_traits>

namespace {

using namespace test;
using gpuheap::growth;
using heap_t = gpuheap::heap<growing_bump>;
using fixed_t = gpuheap::heap<gpuheap::backing_reference>;

static_assert(std::is_nothrow_move_constructible_v<heap_t> && std::is_nothrow_move_assignable_v<heap_t>);
static_assert(!gpuheap::has_grow<gpuheap::backing_reference> && !gpuheap::has_trim<gpuheap::backing_reference>);

std::size_t failed_requests_in(std::vector<void*> const& pointers) {
  return static_cast<std::size_t>(std::count(pointers.begin(), pointers.end(), nullptr));
}
// Threads that get `bytes` each from the heap as it is.
std::size_t served(heap_t& heap, unsigned threads, std::size_t bytes) {
  return threads - failed_requests_in(blocks_of(heap, threads, bytes));
}

TEST(Growth, BeginsSmallAndReservesTheRest) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 64_GiB}};
  EXPECT_TRUE(heap.grows());
  EXPECT_EQ(heap.capacity(), 1_MiB);
  EXPECT_EQ(heap.at_most(), 64_GiB);
  EXPECT_GE(heap.bytes(), 1_MiB - 8_KiB);
  EXPECT_LE(heap.bytes(), 16_MiB) << "the parts' rounding and the records";
  EXPECT_EQ(heap.stats().heap_bytes, heap.bytes());
  EXPECT_EQ(heap.stats().usable_bytes, 1_MiB);
  EXPECT_EQ(served(heap, 200, 4096), 200u);
  EXPECT_EQ(served(heap, 1000, 4096), 54u) << "1 MiB is 254 pages with their words";
}

TEST(Growth, KeepsBlocksAndViewsWhereTheyAre) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 1_GiB}};
  auto const ref = heap.ref();
  blocks<heap_t::ref_type> first{ref, 100, 1000};
  first.malloc_all();
  first.fill();
  ASSERT_EQ(first.failed_requests(), 0u);
  for (unsigned round = 0; round < 3; ++round) {
    simt::size_t const before = heap.bytes();
    heap.grow(20_MiB);
    EXPECT_GE(heap.bytes(), before + 19_MiB);
    blocks<heap_t::ref_type> more{ref, 4000, 4096};  // the view made before
    more.malloc_all();
    more.fill();
    EXPECT_EQ(more.failed_requests(), 0u) << "round " << round;
    more.expect_intact("in a heap that has grown");
    first.expect_intact("as the heap grew");
  }
  EXPECT_EQ(heap.capacity(), 61_MiB);
  EXPECT_EQ(heap.stats().live_allocations, 12'100u);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST(Growth, MovesWithTheHeap) {
  heap_t a{growth{.initial = 1_MiB, .at_most = 64_MiB}};
  auto const ref = a.ref();
  heap_t b{std::move(a)};
  b.grow(10_MiB);
  device_array<void*> out(1000);
  gpuheap::launch(1000, take<heap_t::ref_type>{ref, 4096, out.data()});
  EXPECT_EQ(failed_requests_in(out.read()), 0u);
  heap_t c{growth{.initial = 2_MiB, .at_most = 8_MiB}};
  c = std::move(b);
  EXPECT_EQ(c.capacity(), 11_MiB);
  EXPECT_EQ(c.stats().live_allocations, 1000u);
}

TEST(Growth, ResetKeepsTheSize) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 64_MiB}};
  heap.grow(9_MiB);
  simt::size_t const bytes = heap.bytes();
  EXPECT_LT(served(heap, 3000, 4096), 3000u);
  heap.reset();
  EXPECT_EQ(heap.capacity(), 10_MiB);
  EXPECT_EQ(heap.bytes(), bytes);
  EXPECT_EQ(served(heap, 2500, 4096), 2500u);
  EXPECT_NO_THROW(heap.check());
}

TEST(Growth, StopsAtItsMost) {
  heap_t heap{growth{.initial = 4_MiB, .at_most = 64_MiB}};
  std::string const text = text_of_error([&] { heap.grow(100_MiB); });
  EXPECT_TRUE(says(text, "cannot grow a heap of 4.0 MiB, of at most 64.0 MiB, by 100.0 MiB"));
  EXPECT_THROW(heap.grow(~simt::size_t{0}), gpuheap::error);
  heap.grow(60_MiB);
  EXPECT_EQ(heap.capacity(), heap.at_most());
  EXPECT_THROW(heap.grow(1), gpuheap::error);
  EXPECT_NO_THROW(heap.grow(0));
}

TEST(Growth, WhatTheDeviceDoesNotHaveChangesNothing) {
  simt::size_t const total = gpuheap::memory::device.query()->total_bytes;
  heap_t heap{growth{.initial = 4_MiB, .at_most = 8 * total}};  // half of it is data
  EXPECT_THROW(heap.grow(3 * total), gpuheap::out_of_memory);
  EXPECT_EQ(heap.capacity(), 4_MiB);
  EXPECT_EQ(served(heap, 900, 4096), 900u);
  EXPECT_EQ(heap.verify().problem, "");
  heap.grow(4_MiB);
  EXPECT_EQ(served(heap, 900, 4096), 900u);
}

TEST(Growth, BadSizesAreRefused) {
  EXPECT_TRUE(says(text_of_error([] { heap_t heap{growth{.initial = 2_MiB, .at_most = 1_MiB}}; }),
                   "growth::initial is 2.0 MiB, more than growth::at_most, which is 1.0 MiB"));
  EXPECT_TRUE(
      says(text_of_error([] { heap_t heap{growth{.initial = 100, .at_most = 1_MiB}}; }), "too small for the allocator 'growing_bump'"));
  EXPECT_EQ((heap_t{growth{.initial = 1_MiB}}.at_most() >= gpuheap::memory::device.query()->total_bytes), true);
}

TEST(Growth, AFixedHeapSaysThatItIs) {
  heap_t heap{8_MiB};
  EXPECT_FALSE(heap.grows());
  EXPECT_EQ(heap.capacity(), heap.at_most());
  EXPECT_LE(heap.capacity(), 8_MiB);
  EXPECT_TRUE(says(text_of_error([&] { heap.grow(1_MiB); }),
                   "this heap has a fixed size and cannot grow or shrink: make it as heap{gpuheap::growth{"));
  EXPECT_THROW(heap.trim(), gpuheap::error);
  EXPECT_THROW(heap.grow_when_exhausted({.factor = 2}), gpuheap::error);
  EXPECT_EQ(heap.verify().problem, "");
  fixed_t other{1_MiB};
  EXPECT_FALSE(other.grows());
  EXPECT_EQ(other.capacity(), other.at_most());
}

TEST(Growth, CopiesOnlyWhatIsMapped) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 1_GiB}};
  auto* const p = static_cast<char*>(blocks_of(heap, 1, 64)[0]);
  unsigned value = 7;
  heap.copy_from_host(p, &value, sizeof value);
  value = 0;
  heap.copy_to_host(&value, p, sizeof value);
  EXPECT_EQ(value, 7u);
  EXPECT_TRUE(says(text_of_error([&] { heap.copy_to_host(&value, p + 256_MiB, sizeof value); }), "do not lie in this heap"));
}

// ---- after a failed launch

TEST(GrowWhenExhausted, IsOffAtFirst) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 64_MiB}};
  served(heap, 1000, 4096);
  EXPECT_TRUE(says(text_of_error([&] { heap.check(); }), "requests in kernels found no memory"));
  EXPECT_EQ(heap.capacity(), 1_MiB);
}

TEST(GrowWhenExhausted, GrowsByBytesInsteadOfThrowing) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 64_MiB}};
  heap.grow_when_exhausted({.bytes = 4_MiB});
  EXPECT_EQ(heap.check(), 0u);
  EXPECT_LT(served(heap, 1000, 4096), 1000u);
  EXPECT_EQ(heap.check(), 4_MiB);
  EXPECT_EQ(heap.capacity(), 5_MiB);
  EXPECT_EQ(heap.check(), 0u) << "each failure once";
  EXPECT_EQ(served(heap, 1000, 4096), 1000u);
  EXPECT_EQ(heap.check(), 0u);
}

TEST(GrowWhenExhausted, GrowsByAFactorUpToTheMost) {
  heap_t heap{growth{.initial = 4_MiB, .at_most = 24_MiB}};
  heap.grow_when_exhausted({.bytes = 1_MiB, .factor = 2});
  served(heap, 10'000, 4096);
  EXPECT_EQ(heap.check(), 4_MiB);
  served(heap, 10'000, 4096);
  EXPECT_EQ(heap.check(), 8_MiB) << "of which the allocator can use four: half of the whole is data";
  served(heap, 10'000, 4096);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "found no memory"));
  EXPECT_TRUE(says(text, "The heap cannot grow: it has all of growth::at_most that the allocator can use"));
  heap.grow_when_exhausted({});
  served(heap, 1, 4096);
  EXPECT_EQ(text_of_error([&] { heap.check(); }).find("growth::at_most"), std::string::npos) << "switched off";
}

TEST(GrowWhenExhausted, TellsTheCallbackToo) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 2_MiB}};
  heap.grow_when_exhausted({.bytes = 100_MiB});
  std::vector<gpuheap::exhaustion> told;
  heap.on_exhausted([&](gpuheap::exhaustion const& what) { told.push_back(what); });
  simt::size_t const rest = heap.at_most() - 1_MiB;
  served(heap, 10'000, 4096);
  EXPECT_EQ(heap.check(), rest);
  served(heap, 10'000, 4096);
  EXPECT_EQ(heap.check(), 0u);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].grown_bytes, rest);
  EXPECT_TRUE(says(told[0].text(), "The heap has grown by"));
  EXPECT_EQ(told[1].grown_bytes, 0u);
  EXPECT_TRUE(says(told[1].not_grown, "cannot grow"));
}

TEST(GrowWhenExhausted, WhatTheDeviceDoesNotHaveIsReported) {
  simt::size_t const total = gpuheap::memory::device.query()->total_bytes;
  heap_t heap{growth{.initial = 1_MiB, .at_most = 8 * total}};
  heap.grow_when_exhausted({.bytes = 3 * total});
  served(heap, 1000, 4096);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "The heap could not grow by"));
  EXPECT_TRUE(says(text, "of device memory"));
  EXPECT_EQ(heap.capacity(), 1_MiB);
}

TEST(GrowWhenExhausted, RefusesAFactorBelowOne) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 2_MiB}};
  EXPECT_TRUE(says(text_of_error([&] { heap.grow_when_exhausted({.factor = 0.5}); }), "growth_step::factor is 0.5"));
}

// ---- growth by policy ends, and is for what it helps

TEST(GrowWhenExhausted, NotForRequestsThatNoHeapServes) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 64_MiB}};
  heap.grow_when_exhausted({.bytes = 4_MiB});
  served(heap, 3, 1024_GiB);
  std::string const text = text_of_error([&] { heap.check(); });
  EXPECT_TRUE(says(text, "3 requests in kernels can never be served"));
  EXPECT_EQ(heap.capacity(), 1_MiB);
  served(heap, 3, 1024_GiB);
  served(heap, 1000, 4096);
  EXPECT_THROW(heap.check(), gpuheap::out_of_memory) << "grown for some, and wrong for others";
  EXPECT_EQ(heap.capacity(), 5_MiB);
}

// As docs/heap.md says: the loop ends when all threads are served, or when the heap has its largest size.
template <class Heap>
std::size_t launches_until_check_is_silent(Heap& heap, unsigned threads, std::size_t bytes) {
  for (std::size_t n = 1; n < 10'000; ++n) {
    blocks_of(heap, threads, bytes);
    try {
      if (heap.check() == 0) return n;
    } catch (gpuheap::out_of_memory const&) {
      return n;
    }
  }
  return 0;
}
TEST(GrowWhenExhausted, AStepThatIsTooSmallGrowsByWhatTheAllocatorNeeds) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 2_MiB}};
  heap.grow_when_exhausted({.bytes = 1});
  std::size_t const launches = launches_until_check_is_silent(heap, 300, 4096);
  EXPECT_GT(launches, 1u);
  EXPECT_LT(launches, 1000u);
}

// ---- back

TEST(Trim, GivesFreeMemoryAtTheEndBack) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 2_GiB}};
  heap.grow(115_MiB);
  blocks<heap_t::ref_type> stay{heap.ref(), 100, 1000};
  stay.malloc_all();
  stay.fill();
  auto const go = blocks_of(heap, 20'000, 4096);
  simt::size_t const all = heap.bytes();
  EXPECT_LT(heap.trim(), 45_MiB) << "only what was never used";
  heap.free(go);
  simt::size_t const before = heap.bytes();
  simt::size_t const capacity = heap.capacity();
  simt::size_t const back = heap.trim();
  EXPECT_GT(back, 40_MiB);
  EXPECT_EQ(heap.bytes(), before - back);
  EXPECT_LT(heap.bytes(), all);
  EXPECT_LT(heap.capacity(), capacity);
  EXPECT_EQ(heap.trim(), 0u);
  stay.expect_intact("as the heap was trimmed");
  EXPECT_EQ(heap.verify().problem, "");
  heap.grow(20_MiB);
  EXPECT_EQ(served(heap, 4000, 4096), 4000u);
  stay.expect_intact("as the heap grew again");
}

TEST(Trim, AResetHeapBeginsWithWhatIsLeft) {
  heap_t heap{growth{.initial = 200_MiB, .at_most = 2_GiB}};
  EXPECT_GT(heap.trim(), 100_MiB);
  simt::size_t const capacity = heap.capacity();
  heap.reset();
  EXPECT_EQ(heap.capacity(), capacity);
  EXPECT_GE(served(heap, 1, 100), 1u);
  heap.grow(50_MiB);
  EXPECT_EQ(served(heap, 10'000, 4096), 10'000u);
}

TEST(Verify, SaysWhatIsWrong) {
  heap_t heap{growth{.initial = 1_MiB, .at_most = 2_MiB}};
  auto const blocks = blocks_of(heap, 5, 64);
  EXPECT_EQ(heap.verify().problem, "");
  // The word of the first page of data, one page after the heap's first byte, which lies half way before the data.
  char* const word = static_cast<char*>(*std::min_element(blocks.begin(), blocks.end())) - heap.at_most() / 2 + growing_bump::page_bytes;
  simt::uint32_t const wrong = 9;
  heap.copy_from_host(word, &wrong, sizeof wrong);
  EXPECT_EQ(heap.verify().problem, "5 blocks live, and 9 begin somewhere");
}

}  // namespace
