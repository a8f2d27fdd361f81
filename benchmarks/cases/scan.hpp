// scan: every thread makes prefix sums of its own region, in place; malloc, work and free timed by themselves (harness/region_rounds.hpp).
#pragma once

#include "harness/region_rounds.hpp"

namespace gpuheap::bench {

struct scan {
  static constexpr case_description description{
      .name = "scan",
      .brief = "every thread makes prefix sums of its own region, in place; malloc, work and free timed by themselves",
      .section = "Coalescing",
      .parameters = region_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_regions<A>(s, p, region_work::scan);
  }
};

}  // namespace gpuheap::bench
