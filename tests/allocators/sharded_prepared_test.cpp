// Heaps that begin with prepared spans: where the spans lie, what they serve, and that no memory is lost by them.
#include "../support/blocks.hpp"
#include "sharded_churn.hpp"

#include <gpuheap/memory/address_range.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>

namespace {

using namespace sharded_test;
namespace sharded = gpuheap::sharded;
namespace classes = gpuheap::structures::size_classes;
using prepared = gpuheap::tuned_sharded_spans<sharded::tuning{.prepares = true}>;

void free_and_verify(prepared heap, test::blocks<prepared>& blocks) {
  std::size_t const there = blocks.count() - blocks.failed_requests();
  auto const answers = blocks.free_all();
  EXPECT_EQ(static_cast<std::size_t>(std::count(answers.begin(), answers.end(), gpuheap::free_status::done)), there);
  EXPECT_EQ(heap.verify().problem, "");
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
    test::blocks<prepared> blocks{heap.view, num_threads, bytes};
    blocks.malloc_all();
    EXPECT_EQ(blocks.failed_requests(), 0u);
    blocks.expect_sound(16, heap.region);
    EXPECT_EQ(heap.view.footprint({}).held_bytes, held) << bytes;
    EXPECT_EQ(heap.view.verify().live_slots, num_threads);
    free_and_verify(heap.view, blocks);
  }
}

// A prepared span of which no slot is claimed makes way for requests of other sizes.
TEST(ShardedPrepared, NoMemoryIsLost) {
  for (std::size_t bytes : {200u, 3000u, 20'000u, 300'000u}) {
    fixed_heap<prepared> heap{16 << 20};
    fixed_heap<plain> other{16 << 20};
    unsigned const num_threads = static_cast<unsigned>((17 << 20) / bytes);
    test::blocks<prepared> blocks{heap.view, num_threads, bytes};
    test::blocks<plain> others{other.view, num_threads, bytes};
    blocks.malloc_all();
    others.malloc_all();
    std::size_t const served = num_threads - blocks.failed_requests(), served_there = num_threads - others.failed_requests();
    EXPECT_GE(served * 100, served_there * 99) << bytes;
    blocks.expect_sound(16, heap.region);
    EXPECT_EQ(heap.view.verify().problem, "");
    free_and_verify(heap.view, blocks);
  }
}
TEST(ShardedPrepared, OneBlockMayHaveTheWholeHeap) {
  fixed_heap<prepared> heap{64 << 20};
  test::blocks<prepared> block{heap.view, 1, heap.view.largest_request()};
  block.malloc_all();
  EXPECT_EQ(block.failed_requests(), 0u);
  EXPECT_EQ(heap.view.verify().problem, "");
  free_and_verify(heap.view, block);
  EXPECT_EQ(heap.view.verify().spans, 0u);
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
    test::blocks<prepared> blocks{heap, 1000, bytes};
    blocks.malloc_all();
    EXPECT_EQ(blocks.failed_requests(), 0u);
    EXPECT_EQ(heap.verify().live_slots, 1000u);
    free_and_verify(heap, blocks);
  }
}

TEST(ShardedPrepared, ContendedMixesAreSound) {
  using eager_prepared = gpuheap::tuned_sharded_spans<[] {
    sharded::tuning all = eager_tuning;
    all.prepares = true;
    return all;
  }()>;
  explore_mix<eager_prepared>({"small blocks", 16 << 20, 96, 4, 4, 1, 2000});
  explore_mix<eager_prepared>({"blocks that need the memory of the prepared spans", 16 << 20, 64, 3, 2, 1000, 40'000});
}

}  // namespace
