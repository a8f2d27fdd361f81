// Heaps that begin with prepared spans: where the spans lie, what they serve, and that no memory is lost by them.
#include "eager.hpp"
#include "sharded.hpp"
#include "sharded_churn.hpp"

#include <gpuheap/memory/address_range.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace {

using namespace sharded_test;
namespace sharded = gpuheap::sharded;
namespace classes = gpuheap::structures::size_classes;
using prepared = gpuheap::tuned_sharded_spans<sharded::tuning{.prepares = true}>;

template <class Allocator>
struct take_each {
  Allocator heap;
  void** blocks;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(bytes); }
};
template <class Allocator>
struct give_each {
  Allocator heap;
  void** blocks;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (blocks[i] != nullptr && heap.free(blocks[i]) != gpuheap::free_status::done) count(*refused);
  }
};

template <class Allocator>
std::vector<void*> launch_takes(Allocator heap, unsigned num_threads, std::size_t bytes) {
  std::vector<void*> blocks(num_threads);
  gpuheap::launch(num_threads, take_each<Allocator>{heap, blocks.data(), bytes}, {.block_threads = 256});
  return blocks;
}
template <class Allocator>
unsigned launch_gives(Allocator heap, std::vector<void*>& blocks) {
  unsigned refused = 0;
  gpuheap::launch(static_cast<unsigned>(blocks.size()), give_each<Allocator>{heap, blocks.data(), &refused}, {.block_threads = 256});
  return refused;
}

TEST(ShardedPrepared, SpansShareNoPageAndLieInOneSegmentEach) {
  for (unsigned shift = 12; shift <= 20; ++shift) {
    auto const all = sharded::prepared_spans::of(1024, shift);
    ASSERT_EQ(all.classes, classes::class_of(8192) + 1) << shift;
    std::set<unsigned> pages;
    for (unsigned c = 0; c < all.classes; ++c) {
      ASSERT_NE(all.pages[c], 0u);
      EXPECT_EQ(all.page[c] / 64, (all.page[c] + all.pages[c] - 1) / 64) << "class " << c << ", pages of 2^" << shift;
      EXPECT_GE(all.pages[c] << shift, classes::slot_bytes(c) * 2) << "a span has a slot more than it serves";
      for (unsigned i = 0; i < all.pages[c]; ++i) {
        unsigned const page = all.page[c] + i;
        EXPECT_TRUE(pages.insert(page).second) << "page " << page;
        EXPECT_LT(page, 128u);
        EXPECT_TRUE((all.used[page / 64] >> page % 64 & 1) != 0);
      }
    }
    EXPECT_EQ(all.held(), pages.size());
    EXPECT_TRUE(std::is_sorted(all.page, all.page + all.classes, std::greater<>{})) << "smaller classes lie nearer to the free segments";
  }
}
TEST(ShardedPrepared, ASmallHeapHasNone) {
  EXPECT_EQ(sharded::prepared_spans::of(7, 16).classes, 0u);
  EXPECT_EQ(sharded::prepared_spans::of(2048, 11).classes, 0u);
  fixed_heap<prepared> const heap{8 << 20};
  EXPECT_EQ(heap.view.footprint({}).held_bytes, 0u);
}

TEST(ShardedPrepared, AFirstLaunchNeedsNoFurtherMemory) {
  fixed_heap<prepared> heap{64 << 20};
  EXPECT_EQ(heap.view.verify().problem, "");
  std::size_t const held = heap.view.footprint({}).held_bytes;
  EXPECT_LE(held, 2 * heap.view.geometry().segment_bytes());
  for (std::size_t bytes = 16; bytes <= 8192; bytes += bytes / 4) {
    unsigned const num_threads = bytes <= 512 ? 64 : 4;
    auto blocks = launch_takes(heap.view, num_threads, bytes);
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), num_threads);
    EXPECT_EQ(heap.view.footprint({}).held_bytes, held) << bytes;
    EXPECT_EQ(heap.view.verify().live_slots, num_threads);
    EXPECT_EQ(launch_gives(heap.view, blocks), 0u);
    EXPECT_EQ(heap.view.verify().problem, "");
  }
}

// What other classes do not use serves any request, as in a heap without prepared spans.
TEST(ShardedPrepared, NoMemoryIsLost) {
  for (std::size_t bytes : {200u, 3000u, 20'000u, 300'000u}) {
    fixed_heap<prepared> heap{16 << 20};
    fixed_heap<plain> other{16 << 20};
    unsigned const num_threads = static_cast<unsigned>((17 << 20) / bytes);
    auto blocks = launch_takes(heap.view, num_threads, bytes), others = launch_takes(other.view, num_threads, bytes);
    auto const served = num_threads - std::count(blocks.begin(), blocks.end(), nullptr),
               served_there = num_threads - std::count(others.begin(), others.end(), nullptr);
    EXPECT_GE(served * 100, served_there * 99) << bytes;
    EXPECT_EQ(heap.view.verify().problem, "");
    EXPECT_EQ(launch_gives(heap.view, blocks), 0u);
    EXPECT_EQ(heap.view.verify().problem, "");
  }
}
TEST(ShardedPrepared, OneBlockMayHaveTheWholeHeap) {
  fixed_heap<prepared> heap{64 << 20};
  auto block = launch_takes(heap.view, 1, heap.view.largest_request());
  EXPECT_NE(block[0], nullptr);
  EXPECT_EQ(heap.view.verify().problem, "");
  EXPECT_EQ(launch_gives(heap.view, block), 0u);
  auto const found = heap.view.verify();
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.spans, 0u);
}

// A trim drains all shards, so it also removes the memory of the prepared spans.
TEST(ShardedPrepared, AHeapThatGrowsAndIsTrimmedIsSound) {
  gpuheap::memory::address_range range{std::size_t{1} << 30};
  std::size_t reach = 0;
  gpuheap::memory::map_function const map = [&](std::size_t offset, std::size_t bytes) {
    range.map(offset, bytes);
    reach = std::max(reach, offset + bytes);
  };
  auto const heap = prepared::create_growable(range.where(), 64 << 20, map, {});
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_GT(heap.verify().spans, 30u);
  heap.grow(128 << 20, map, {});
  EXPECT_EQ(heap.verify().problem, "");
  std::size_t const given_up = heap.trim({});
  EXPECT_GT(given_up, std::size_t{100} << 20);
  reach -= given_up;
  range.unmap(reach, range.bytes() - reach);
  EXPECT_EQ(heap.verify().problem, "");
  EXPECT_EQ(heap.verify().spans, 0u);
  heap.grow(64 << 20, map, {});
  for (std::size_t bytes : {16u, 1000u, 9000u}) {
    auto blocks = launch_takes(heap, 1000, bytes);
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    EXPECT_EQ(heap.verify().live_slots, 1000u);
    EXPECT_EQ(launch_gives(heap, blocks), 0u);
    EXPECT_EQ(heap.verify().problem, "");
  }
}

TEST(ShardedPrepared, ContendedMixesAreSound) {
  using eager_prepared = gpuheap::tuned_sharded_spans<sharded::tuning{.lg_span_slots = 6,
                                                                      .span_free_divisor = 1,
                                                                      .reuse_free_divisor = 8,
                                                                      .partial_samples = 3,
                                                                      .lg_large_launch = 1,
                                                                      .wait_polls = 2,
                                                                      .take_over_divisor = 1,
                                                                      .prepares = true}>;
  explore_mix<eager_prepared>({"small blocks", 16 << 20, 96, 4, 4, 1, 2000});
  explore_mix<eager_prepared>({"blocks that need the memory of the prepared spans", 16 << 20, 64, 3, 2, 1000, 40'000});
}

}  // namespace
