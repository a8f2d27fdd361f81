// alloc_large: alloc_single for requests of many pages, up to nearly all of the heap by one thread.
#pragma once

#include "cases/alloc_single.hpp"

namespace gpuheap::bench {

struct alloc_large {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "64", 1, 1u << 20),
      number_parameter("bytes", "1048576", 1, std::uint64_t{1} << 40),
      state_parameter,
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "alloc_large",
      .brief = "equal requests of 64 KiB up to nearly the whole heap",
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
