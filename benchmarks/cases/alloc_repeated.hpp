// alloc_repeated: every thread asks for one block after the other, then all blocks are freed. By default the lanes of one warp ask a
// hundred times each, which shows the cost of an allocation that follows others of its warp. Times are per allocation of a thread, so
// points of different numbers compare; those of short kernels are mostly the kernel's own.
#pragma once

#include "harness/allocation_rounds.hpp"

namespace gpuheap::bench {

struct repeated_requests {
  static constexpr unsigned threads_per_request = 1;
  unsigned threads;
  unsigned per_thread;
  simt::uint64_t request_bytes;
  GPUHEAP_HD simt::uint64_t bytes(unsigned) const { return request_bytes; }
  [[nodiscard]] simt::uint64_t largest_bytes() const { return request_bytes; }
};

struct alloc_repeated {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "32", 1, 1u << 20),
      bytes_parameter,
      number_parameter("allocations", "100", 1, 1u << 16),  // of each thread
      state_parameter,
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "alloc_repeated",
      .brief = "every thread of one warp or more asks for blocks of the same size one after the other: time per allocation",
      .section = "Allocation",
      .parameters = parameters,
      .takes_baselines = true,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const per_thread = static_cast<unsigned>(p.number("allocations"));
    if (p.number("threads") * per_thread >= std::uint64_t{1} << 31)
      return unsupported("the point has more allocations than the case counts");
    auto result = run_allocation_rounds<A>(s, p, repeated_requests{p.threads(), per_thread, p.number("bytes")});
    for (row& r : result.rows) {
      if (std::string_view{r.unit} != "us") continue;
      for (double& sample : r.samples) sample /= per_thread;
    }
    return result;
  }
};

}  // namespace gpuheap::bench
