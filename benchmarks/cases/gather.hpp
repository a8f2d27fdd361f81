// gather: every thread sums up its own region in an order far from that of memory; malloc, work and free timed by themselves
// (harness/region_rounds.hpp).
#pragma once

#include "harness/region_rounds.hpp"

namespace gpuheap::bench {

struct gather {
  static constexpr case_description description{
      .name = "gather",
      .brief = "every thread sums up its own region in an order far from that of memory; malloc, work and free timed by themselves",
      .section = "Coalescing",
      .parameters = region_parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return run_regions<A>(s, p, region_work::gather);
  }
};

}  // namespace gpuheap::bench
