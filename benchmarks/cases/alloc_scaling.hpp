// alloc_scaling: alloc_single from one thread to a million, to see from where on threads get in each other's way.
#pragma once

#include "cases/alloc_single.hpp"

namespace gpuheap::bench {

struct alloc_scaling {
  static constexpr parameter parameters[] = {number_parameter("threads", "1024", 1, 1u << 20), bytes_parameter, state_parameter,
                                             heap_parameter, block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_scaling",
      .brief = "equal requests by 1 to 2^20 threads",
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
