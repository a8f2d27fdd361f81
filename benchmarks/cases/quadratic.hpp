// quadratic: every thread sums up the products of all pairs of its own region; malloc, work and free timed by themselves
// (harness/region_rounds.hpp).
#pragma once

#include "harness/region_rounds.hpp"

namespace gpuheap::bench {

struct quadratic {
  static constexpr case_description description{
      .name = "quadratic",
      .brief = "every thread sums up the products of all pairs of its own region; malloc, work and free timed by themselves",
      .section = "Coalescing",
      .parameters = region_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_regions<A>(s, p, region_work::quadratic);
  }
};

}  // namespace gpuheap::bench
