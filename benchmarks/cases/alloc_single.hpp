// alloc_single: every thread allocates one block of the same size, then frees it.
#pragma once

#include "harness/allocation_rounds.hpp"

namespace gpuheap::bench {

struct equal_requests {
  static constexpr unsigned threads_per_request = 1;
  unsigned threads;
  simt::uint64_t request_bytes;
  GPUHEAP_HD simt::uint64_t bytes(unsigned) const { return request_bytes; }
  [[nodiscard]] simt::uint64_t largest_bytes() const { return request_bytes; }
};

struct alloc_single {
  static constexpr parameter parameters[] = {threads_parameter, bytes_parameter, state_parameter, heap_parameter, block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_single",
      .brief = "every thread allocates one block of the same size, then frees it",
      .section = "Allocation",
      .parameters = parameters,
      .takes_baselines = true,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_allocation_rounds<A>(s, p, equal_requests{p.threads(), p.number("bytes")});
  }
};

}  // namespace gpuheap::bench
