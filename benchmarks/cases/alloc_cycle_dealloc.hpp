// alloc_cycle_dealloc: one lane of each warp asks for several blocks, one after the other, then gives all of them back, in one kernel.
// Vinkler and Havran 2014, section 5, [ACD].
#pragma once

#include "harness/page_sizes.hpp"
#include "harness/warp_cycles.hpp"

namespace gpuheap::bench {

struct alloc_cycle_dealloc {
  static constexpr parameter parameters[] = {warp_cycle_threads_parameter,
                                             bytes_parameter,
                                             number_parameter("iterations", "10", 1, 1000),
                                             state_parameter,
                                             page_parameter,
                                             heap_parameter,
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_cycle_dealloc",
      .brief = "one lane of each warp asks for several blocks, then frees them all, in one kernel",
      .section = "Warps",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return with_page_size<A>(p, [&]<class B> { return run_warp_cycles<B>(s, p, static_cast<unsigned>(p.number("iterations"))); });
  }
};

}  // namespace gpuheap::bench
