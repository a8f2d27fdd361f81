// presplit: alloc_cycle_dealloc by the circular lists of Reg-Eff, with other ways to split their memory at the start. Vinkler and Havran
// (2014, section 7) leave this to later work.
#pragma once

#include "harness/page_sizes.hpp"
#include "harness/warp_cycles.hpp"

namespace gpuheap::bench {

struct presplit {
  static constexpr parameter parameters[] = {warp_cycle_threads_parameter,
                                             bytes_parameter,
                                             number_parameter("iterations", "10", 1, 1000),
                                             state_parameter,
                                             presplit_parameter,
                                             heap_parameter,
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "presplit",
      .brief =
          "one lane of each warp asks for several blocks, then frees them all, of memory that is split at the start: trees, one chunk, "
          "equal ones",
      .section = "Warps",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const iterations = static_cast<unsigned>(p.number("iterations"));
    return with_presplit<A>(p, [&]<class B> { return run_warp_cycles<B>(s, p, iterations); });
  }
};

}  // namespace gpuheap::bench
