// random_sizes: alloc_single at random sizes. The suite draws them by the seed, and blocks of threads vary with them.
#pragma once

#include <span>

#include "cases/alloc_single.hpp"

namespace gpuheap::bench {

struct random_sizes {
  static constexpr std::span<parameter const> parameters = alloc_single::parameters;
  static constexpr case_description description{
      .name = "random_sizes",
      .brief = "every thread asks for one block of the same size, at sizes drawn by the seed",
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
