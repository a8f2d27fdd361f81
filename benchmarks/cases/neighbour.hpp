// neighbour: every thread sums up the next thread's region; malloc, work and free timed by themselves (harness/region_rounds.hpp).
#pragma once

#include "harness/region_rounds.hpp"

namespace gpuheap::bench {

struct neighbour {
  static constexpr case_description description{
      .name = "neighbour",
      .brief = "every thread sums up the next thread's region; malloc, work and free timed by themselves",
      .section = "Coalescing",
      .parameters = region_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_regions<A>(s, p, region_work::neighbour);
  }
};

}  // namespace gpuheap::bench
