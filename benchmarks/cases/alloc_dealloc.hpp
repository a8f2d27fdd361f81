// alloc_dealloc: one lane of each warp asks for a block and gives it back at once. Vinkler and Havran 2014, section 5, [AD].
#pragma once

#include "harness/warp_cycles.hpp"

namespace gpuheap::bench {

struct alloc_dealloc {
  static constexpr parameter parameters[] = {warp_cycle_threads_parameter, bytes_parameter, state_parameter, heap_parameter,
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_dealloc",
      .brief = "one lane of each warp asks for a block and frees it at once, in one kernel",
      .section = "Warps",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_warp_cycles<A>(s, p, 1);
  }
};

}  // namespace gpuheap::bench
