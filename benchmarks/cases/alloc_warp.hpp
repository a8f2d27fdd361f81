// alloc_warp: one lane of each warp allocates a block, then frees it.
#pragma once

#include "harness/allocation_rounds.hpp"

namespace gpuheap::bench {

struct one_lane_requests {
  static constexpr unsigned threads_per_request = simt::warp_lanes;
  unsigned threads;
  simt::uint64_t request_bytes;
  GPUHEAP_HD simt::uint64_t bytes(unsigned) const { return request_bytes; }
  [[nodiscard]] simt::uint64_t largest_bytes() const { return request_bytes; }
};

struct alloc_warp {
  static constexpr parameter parameters[] = {threads_parameter, bytes_parameter, state_parameter, heap_parameter, block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_warp",
      .brief = "one lane of each warp allocates a block, then frees it",
      .section = "Allocation",
      .parameters = parameters,
      .takes_baselines = true,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_allocation_rounds<A>(s, p, one_lane_requests{p.threads(), p.number("bytes")});
  }
};

}  // namespace gpuheap::bench
