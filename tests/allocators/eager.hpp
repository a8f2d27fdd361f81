// The default allocator tuned so that rare steps happen all the time, and a heap of fixed size for it. Without GoogleTest, for mutants too.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <cstddef>

namespace sharded_test {

namespace simt = gpuheap::simt;

// Short spans, shards for a few warps, reuse of nearly full spans, a search after two polls. So whatever happens to a span happens all the
// time.
inline constexpr gpuheap::sharded::tuning eager_tuning{.lg_span_slots = 6,
                                                       .span_free_divisor = 1,
                                                       .reuse_free_divisor = 8,
                                                       .partial_samples = 3,
                                                       .lg_large_launch = 1,
                                                       .wait_polls = 2,
                                                       .take_over_divisor = 1};
using eager = gpuheap::tuned_sharded_spans<eager_tuning>;

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

}  // namespace sharded_test
