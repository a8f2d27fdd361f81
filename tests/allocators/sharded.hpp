// Common parts of the tests of the default allocator: its tunings, heaps for it, and its exploration under many schedules.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/simt/explore.hpp>
#include "../support/seeds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>

namespace sharded_test {

namespace simt = gpuheap::simt;

// As it is shipped, and eager: short spans, shards for a few warps, reuse of nearly full spans, a search after two polls. So whatever
// happens to a span happens all the time.
using plain = gpuheap::sharded_spans;
using eager = gpuheap::tuned_sharded_spans<gpuheap::sharded::tuning{.lg_span_slots = 6,
                                                                    .span_free_divisor = 1,
                                                                    .reuse_free_divisor = 8,
                                                                    .partial_samples = 3,
                                                                    .lg_large_launch = 1,
                                                                    .wait_polls = 2,
                                                                    .take_over_divisor = 1}>;

// A heap of fixed size.
template <class Allocator>
struct fixed_heap {
  explicit fixed_heap(std::size_t bytes)
      : region{simt::allocate(simt::memory_kind::device, bytes), bytes}, view{Allocator::create(region, {})} {}
  ~fixed_heap() { simt::deallocate(simt::memory_kind::device, region.base); }
  fixed_heap(fixed_heap const&) = delete;
  fixed_heap& operator=(fixed_heap const&) = delete;

  gpuheap::memory::region region;
  Allocator view;
};

GPUHEAP_FN inline void count(unsigned& what) { (void)simt::atomic_ref<unsigned>{what}.fetch_add(1, simt::relaxed); }

// Runs `body` under the schedules of many seeds, half of them in the weak memory mode.
template <class Body>
void explore(char const* what, Body body) {
  simt::exploration const result = simt::explore(test::num_seeds(40), [&] {
    body();
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(result) << what << ": " << result.what << "\nafter " << result.num_runs << " runs, seed " << result.seed;
}

}  // namespace sharded_test
