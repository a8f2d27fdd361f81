// Memory that several threads get by one claim: large allocations of a warp's lanes, and the short spans of a launch's shards.
#include "sharded.hpp"

#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using namespace sharded_test;

// Asks for `bytes` and writes the block's first and last byte.
template <class Allocator>
struct take {
  Allocator heap;
  void** blocks;
  std::size_t bytes, alignment;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto* const p = static_cast<char*>(alignment == 16 ? heap.malloc(bytes) : heap.aligned_malloc(bytes, alignment));
    blocks[i] = p;
    if (p != nullptr) p[0] = p[bytes - 1] = static_cast<char>(i);
  }
};
// Frees in an order of its own; counts blocks that somebody else has written to, and frees that are refused.
template <class Allocator>
struct give {
  Allocator heap;
  void** blocks;
  std::size_t bytes;
  unsigned num, step;  // coprime
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const j = i * step % num;
    auto* const p = static_cast<char*>(blocks[j]);
    if (p == nullptr) return;
    if (p[0] != static_cast<char>(j) || p[bytes - 1] != static_cast<char>(j)) count(*wrong);
    if (heap.free(p) != gpuheap::free_status::done) count(*wrong);
  }
};

std::size_t range_of(std::vector<void*> const& blocks, std::size_t bytes) {
  auto const [lowest, highest] = std::minmax_element(blocks.begin(), blocks.end());
  return static_cast<std::size_t>(static_cast<char*>(*highest) - static_cast<char*>(*lowest)) + bytes;
}

// Pieces of less than a segment, of a segment, and of more, that begin and end anywhere in segments.
TEST(ShardedExtents, ALaneOwnsItsPieceOfAWarpsClaim) {
  for (unsigned pages : {17u, 20u, 63u, 64u, 65u, 100u, 128u, 200u}) {
    fixed_heap<plain> heap{64 << 20};
    auto const& at = heap.view.geometry();
    std::size_t const bytes = pages * at.page_bytes() - 100;
    // A warp's pieces lie side by side.
    std::vector<void*> row(32);
    unsigned refused = 0;
    gpuheap::launch(32, take<plain>{heap.view, row.data(), bytes, 16}, {.block_threads = 32});
    EXPECT_EQ(range_of(row, pages * at.page_bytes()), 32 * pages * at.page_bytes()) << pages;
    gpuheap::launch(32, give<plain>{heap.view, row.data(), bytes, 32, 5, &refused}, {.block_threads = 32});
    EXPECT_EQ(refused, 0u);
    for (unsigned step : {1u, 3u, 9u}) {
      std::vector<void*> blocks(70);
      gpuheap::launch(70, take<plain>{heap.view, blocks.data(), bytes, 16}, {.block_threads = 70});
      ASSERT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0) << pages;
      auto const full = heap.view.verify();
      EXPECT_EQ(full.problem, "") << pages;
      EXPECT_EQ(full.large_allocations, 70u);
      unsigned wrong = 0;
      gpuheap::launch(70, give<plain>{heap.view, blocks.data(), bytes, 70, step, &wrong}, {.block_threads = 32});
      EXPECT_EQ(wrong, 0u) << pages;
      auto const empty = heap.view.verify();
      EXPECT_EQ(empty.problem, "") << pages;
      EXPECT_EQ(empty.large_allocations, 0u);
    }
    // All of it is one piece again.
    std::vector<void*> all(1);
    gpuheap::launch(1, take<plain>{heap.view, all.data(), at.heap_bytes(), 16});
    EXPECT_NE(all[0], nullptr) << pages;
  }
}

TEST(ShardedExtents, PiecesAreAlignedAsAsked) {
  fixed_heap<plain> heap{256 << 20};
  for (std::size_t alignment : {std::size_t{64} << 10, std::size_t{1} << 20}) {
    for (std::size_t bytes : {alignment, alignment * 3, alignment + 1}) {
      std::vector<void*> blocks(32);
      gpuheap::launch(32, take<plain>{heap.view, blocks.data(), bytes, alignment}, {.block_threads = 32});
      for (void* p : blocks) {
        EXPECT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
      }
      unsigned wrong = 0;
      gpuheap::launch(32, give<plain>{heap.view, blocks.data(), bytes, 32, 1, &wrong}, {.block_threads = 32});
      EXPECT_EQ(wrong, 0u);
    }
  }
}

// If no row is long enough for a warp, its lanes get the memory that there is: as many lanes as would get it one after the other.
TEST(ShardedExtents, AWarpTakesTheLastOfAHeap) {
  for (unsigned pages : {17u, 40u, 64u, 90u}) {
    fixed_heap<plain> heap{4 << 20};
    auto const& at = heap.view.geometry();
    std::size_t const bytes = pages * at.page_bytes();
    std::vector<void*> blocks(512);
    gpuheap::launch(512, take<plain>{heap.view, blocks.data(), bytes, 16}, {.block_threads = 64});
    std::size_t const served = blocks.size() - static_cast<std::size_t>(std::count(blocks.begin(), blocks.end(), nullptr));
    EXPECT_GE(served * 100, at.num_pages / pages * 85) << pages;
    EXPECT_EQ(heap.view.verify().problem, "") << pages;
    // Every third piece comes back, for warps that ask for less.
    std::vector<void*> third(512);
    for (std::size_t i = 0; i < blocks.size(); i += 3) std::swap(third[i], blocks[i]);
    unsigned wrong = 0;
    gpuheap::launch(512, give<plain>{heap.view, third.data(), bytes, 512, 1, &wrong}, {.block_threads = 32});
    EXPECT_EQ(wrong, 0u);
    std::vector<void*> again(512);
    gpuheap::launch(512, take<plain>{heap.view, again.data(), bytes, 16}, {.block_threads = 64});
    EXPECT_GE(again.size() - static_cast<std::size_t>(std::count(again.begin(), again.end(), nullptr)), (served + 2) / 3) << pages;
    EXPECT_EQ(heap.view.verify().problem, "") << pages;
  }
}

// Warps whose lanes ask for different amounts, beside others that free, under many schedules.
struct replace {
  plain heap;
  std::size_t page_bytes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < 3; ++round) {
      // One warp asks for one size, another for two.
      unsigned const pages = 17 + (round * 29 + i / 16 * 23) % 60;
      auto* const p = static_cast<char*>(heap.malloc(pages * page_bytes));
      if (p == nullptr) continue;
      p[0] = p[pages * page_bytes - 1] = static_cast<char>(i);
      if (i % 3 == round) (void)heap.try_resize(p, (pages + 9) * page_bytes);
      if (p[0] != static_cast<char>(i) || p[pages * page_bytes - 1] != static_cast<char>(i)) count(*wrong);
      if (heap.free(p) != gpuheap::free_status::done) count(*wrong);
    }
  }
};
TEST(ShardedExtents, WarpsThatClaimAndFreeAtOnce) {
  explore("extents", [] {
    fixed_heap<plain> heap{3 << 20};
    unsigned wrong = 0;
    gpuheap::launch(80, replace{heap.view, heap.view.geometry().page_bytes(), &wrong}, {.block_threads = 48});
    EXPECT_EQ(wrong, 0u);
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.large_allocations, 0u);
    std::vector<void*> all(1);
    gpuheap::launch(1, take<plain>{heap.view, all.data(), heap.view.geometry().heap_bytes(), 16});
    EXPECT_NE(all[0], nullptr);
  });
}

// Kernel: the lanes of a warp take turns between two heaps, for blocks that the heaps serve by pages.
struct take_from_two {
  plain first, second;
  std::size_t bytes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    plain const& heap = i % 2 == 0 ? first : second;
    void* const p = heap.malloc(bytes);
    if (p == nullptr || heap.free(p) != gpuheap::free_status::done) count(*wrong);
  }
};

TEST(ShardedExtents, LanesOfAWarpMayAskTwoHeaps) {
  explore("extents of two heaps", [] {
    fixed_heap<plain> first{8 << 20}, second{8 << 20};
    unsigned wrong = 0;
    gpuheap::launch(32, take_from_two{first.view, second.view, 20 * first.view.geometry().page_bytes(), &wrong}, {.block_threads = 32});
    EXPECT_EQ(wrong, 0u);
  });
}

// ---- launches that need few segments

// A launch whose warps would keep sixteen shards busy.
using many_shards = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.lg_large_launch = 2}>;

template <class Allocator>
void launch_three_times() {
  constexpr unsigned num_threads = 15'000;  // a little less than 16 segments serve
  for (std::size_t bytes : {256u, 512u, 1024u}) {
    fixed_heap<Allocator> heap{1 << 30};
    ASSERT_GT(num_threads * bytes, 7 * heap.view.geometry().segment_bytes());
    std::vector<void*> blocks(num_threads);
    for (unsigned round = 0; round < 3; ++round) {
      gpuheap::launch(num_threads, take<Allocator>{heap.view, blocks.data(), bytes, 16}, {.block_threads = 256});
      ASSERT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
      EXPECT_LE(range_of(blocks, bytes) * 10, num_threads * bytes * 13) << bytes;
      unsigned wrong = 0;
      gpuheap::launch(num_threads, give<Allocator>{heap.view, blocks.data(), bytes, num_threads, 1, &wrong}, {.block_threads = 256});
      EXPECT_EQ(wrong, 0u);
    }
    EXPECT_EQ(heap.view.verify().problem, "");
  }
}

TEST(ShardedRange, ALaunchUsesNoMoreShardsThanItNeedsSegments) { launch_three_times<many_shards>(); }
TEST(ShardedRange, PreparedSpansLieNearTheOtherSpansOfTheirClass) {
  launch_three_times<gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.lg_large_launch = 2, .prepares = true}>>();
}

}  // namespace
