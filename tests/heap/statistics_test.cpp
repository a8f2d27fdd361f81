// Tests of a heap's counts: their values, their exactness, and heaps without them.
#include <algorithm>
#include <span>

#include "fixtures.hpp"

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::backing_reference>;

TEST(Statistics, CountWhatLives) {
  heap_t heap{8_MiB};
  auto const small = blocks_of(heap, 1000, 16), large = blocks_of(heap, 3, 500'000);
  gpuheap::statistics const s = heap.stats();
  EXPECT_TRUE(s.counts_allocations);
  EXPECT_TRUE(s.counts_bytes);
  EXPECT_EQ(s.live_allocations, 1003u);
  std::size_t const bytes = 1000 * gpuheap::backing_reference::rounded_size(16) + 3 * gpuheap::backing_reference::rounded_size(500'000);
  EXPECT_EQ(s.live_bytes, bytes);
  EXPECT_EQ(s.heap_bytes, 8_MiB);
  EXPECT_LT(s.usable_bytes, s.heap_bytes);
  EXPECT_GT(s.usable_bytes, s.heap_bytes * 9 / 10);
  EXPECT_DOUBLE_EQ(s.utilisation(), static_cast<double>(bytes) / static_cast<double>(8_MiB));
  EXPECT_TRUE(s.knows_footprint);
  EXPECT_EQ(s.held_bytes, bytes + 1003 * 16) << "this allocator holds a header a block";
  EXPECT_GT(s.metadata_bytes, 0u);
  heap.free(small);
  EXPECT_EQ(heap.stats().live_allocations, 3u);
  heap.free(large);
  EXPECT_EQ(heap.stats().live_bytes, 0u);
  EXPECT_EQ(heap.stats().held_bytes, 0u);
}

TEST(Statistics, ThePeakIsWithinItsBound) {
  for (std::size_t const heap_bytes : {256_KiB, 2_MiB, 32_MiB}) {
    heap_t heap{heap_bytes};
    EXPECT_LE(heap.stats().peak_error_bytes, std::max<std::size_t>(256, heap_bytes / 1024));
    std::size_t most = 0;
    for (unsigned percent : {10, 60, 30}) {
      std::size_t const bytes = heap_bytes / 2048 - 16, count = heap_bytes * percent / 100 / (bytes + 16);
      auto const blocks = blocks_of(heap, static_cast<unsigned>(count), bytes);
      most = std::max(most, heap.stats().live_bytes);
      heap.free(blocks);
      gpuheap::statistics const s = heap.stats();
      EXPECT_EQ(s.live_bytes, 0u);
      EXPECT_LE(s.peak_live_bytes, most);
      EXPECT_GE(s.peak_live_bytes + s.peak_error_bytes, most);
    }
    heap.reset();
    EXPECT_EQ(heap.stats().peak_live_bytes, 0u);
  }
}

// Thread i asks for 64 KiB if it is the fifth of 4096, and for 64 B otherwise.
template <class Ref>
struct take_rarely_long {
  Ref heap;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc(i % 4096 == 5 ? 65536 : 64); }
};

TEST(Statistics, ASizeForWhichFewLanesAskHoldsLittle) {
  constexpr unsigned threads = 32768;
  gpuheap::heap<> heap{1_GiB};
  device_array<void*> pointers(threads);
  gpuheap::launch(threads, take_rarely_long<gpuheap::heap<>::ref_type>{heap.ref(), pointers.data()});
  auto const blocks = pointers.read();
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
  gpuheap::statistics const s = heap.stats();
  EXPECT_GE(s.live_bytes, threads / 4096 * 65536 + (threads - threads / 4096) * 64u);
  EXPECT_LE(s.held_bytes, 36_MiB) << "the launch would need 64 MiB if each of its warps asked for 64 KiB";
  heap.free(blocks);
  EXPECT_EQ(heap.stats().live_bytes, 0u);
}

// One thread frees what others allocated: the stripes go below zero, the sum does not.
TEST(Statistics, BlocksMayBeFreedByOtherWarps) {
  heap_t heap{8_MiB};
  for (unsigned round = 0; round < 5; ++round) {
    auto blocks = blocks_of(heap, 3000, 200, {.block_threads = 32});
    std::reverse(blocks.begin(), blocks.end());
    for (unsigned part = 0; part < 10; ++part) heap.free(std::span{blocks}.subspan(part * 300, 300));
    gpuheap::statistics const s = heap.stats();
    EXPECT_EQ(s.live_allocations, 0u);
    EXPECT_EQ(s.live_bytes, 0u);
    EXPECT_GE(s.peak_live_bytes + s.peak_error_bytes, 3000u * 208);
    EXPECT_LE(s.peak_live_bytes, 3000u * 208);
  }
}

// Kernel: the policy alone, told of blocks of any size.
struct tell {
  gpuheap::counted of;
  std::size_t bytes;
  bool free;
  GPUHEAP_FN void operator()(unsigned) const {
    if (free) {
      of.freed(bytes);
    } else {
      of.allocated(bytes);
    }
  }
};
TEST(Statistics, SumsOfAWarpMayExceed32Bits) {
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, 128_MiB - 1, 128_MiB, 3_GiB, std::size_t{1} << 50}) {
    device_array<std::uint64_t> counters(gpuheap::counted::counter_bytes / 8);
    gpuheap::counted const policy{counters.data(), 64_GiB};
    gpuheap::launch(100, tell{policy, bytes, false}, {.block_threads = 64});
    gpuheap::live_counts const full = policy.read(counters.read().data());
    EXPECT_EQ(full.allocations, 100u);
    EXPECT_EQ(full.bytes, 100 * bytes);
    EXPECT_EQ(full.peak_bytes, 100 * bytes);
    gpuheap::launch(100, tell{policy, bytes, true}, {.block_threads = 32});
    gpuheap::live_counts const empty = policy.read(counters.read().data());
    EXPECT_EQ(empty.allocations, 0u);
    EXPECT_EQ(empty.bytes, 0u);
    EXPECT_LE(empty.peak_bytes, 100 * bytes);
    EXPECT_GE(empty.peak_bytes + empty.peak_error_bytes, 100 * bytes);
  }
}

TEST(Statistics, WithoutSizesOnlyCount) {
  gpuheap::heap<gpuheap::atomic_malloc> heap{1_MiB};
  blocks_of(heap, 100, 16);
  gpuheap::statistics const s = heap.stats();
  EXPECT_FALSE(s.counts_bytes);
  EXPECT_EQ(s.live_allocations, 100u);
  EXPECT_EQ(s.live_bytes, 0u);
  EXPECT_EQ(s.held_bytes, 1600u);
}

TEST(Statistics, CanBeLeftOut) {
  gpuheap::heap<gpuheap::backing_reference, gpuheap::uncounted> heap{1_MiB};
  auto const blocks = blocks_of(heap, 100, 16);
  heap.free(blocks);
  heap.free(blocks);
  blocks_of(heap, 7, 3_MiB);
  gpuheap::statistics const s = heap.stats();
  EXPECT_FALSE(s.counts_allocations);
  EXPECT_FALSE(s.counts_bytes);
  EXPECT_EQ(s.live_allocations, 0u);
  EXPECT_EQ(s.failed_requests, 7u) << "failures are recorded in any case";
  EXPECT_EQ(s.double_frees, 100u);
}

TEST(Statistics, AreJson) {
  gpuheap::heap<gpuheap::backing_reference> heap{4_MiB};
  std::string const empty = heap.stats().json();
  EXPECT_EQ(empty.front(), '{');
  EXPECT_EQ(empty.back(), '}');
  EXPECT_EQ(empty.find("first_failed_bytes"), std::string::npos) << empty;
  (void)blocks_of(heap, 3, 100);
  (void)blocks_of(heap, 2, 1_GiB);
  std::string const used = heap.stats().json();
  EXPECT_TRUE(says(used, "{\"heap_bytes\": 4194304, \"usable_bytes\": "));
  EXPECT_TRUE(says(used, "\"live_allocations\": 3, "));
  EXPECT_TRUE(says(used, "\"failed_requests\": 2, "));
  EXPECT_TRUE(says(used, "\"first_failed_bytes\": 1073741824, "));
}

}  // namespace
