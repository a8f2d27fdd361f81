// linear: every thread sums up its own region; malloc, work and free timed by themselves (harness/region_rounds.hpp).
#pragma once

#include "harness/region_rounds.hpp"

namespace gpuheap::bench {

struct linear {
  static constexpr case_description description{
      .name = "linear",
      .brief = "every thread sums up its own region; malloc, work and free timed by themselves",
      .section = "Coalescing",
      .parameters = region_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_regions<A>(s, p, region_work::linear);
  }
};

}  // namespace gpuheap::bench
