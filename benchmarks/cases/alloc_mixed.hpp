// alloc_mixed: every thread asks for one block of a random size, then gives it back.
#pragma once

#include <string>

#include "harness/allocation_rounds.hpp"
#include "harness/error.hpp"
#include "harness/random.hpp"

namespace gpuheap::bench {

struct random_requests {
  static constexpr unsigned threads_per_request = 1;
  unsigned threads;
  simt::uint32_t largest;
  bool powers_of_two;  // smallest, its double, ... largest, each as often; otherwise every size in between
  random_sequence random;
  simt::uint32_t smallest;

  GPUHEAP_HD simt::uint64_t bytes(unsigned request) const {
    if (powers_of_two) return smallest << random.below(request, simt::highest_bit(largest) - simt::highest_bit(smallest) + 1);
    return smallest + random.below(request, largest - smallest + 1);
  }
  [[nodiscard]] simt::uint64_t largest_bytes() const { return largest; }
};

// The smallest request of a case that draws sizes.
inline constexpr simt::uint32_t smallest_drawn = 4, smallest_power_drawn = 16;

// Throws usage_error where a point's largest size is below the smallest that its `dist` draws.
inline void check_drawn_sizes(session const&, point const& p) {
  if (p.text("dist") == "pow2" && p.number("bytes") < smallest_power_drawn)
    throw usage_error("bytes=" + p.text("bytes") + ": with dist=pow2 sizes begin at " + std::to_string(smallest_power_drawn));
}

struct alloc_mixed {
  static constexpr parameter parameters[] = {
      threads_parameter, number_parameter("bytes", "1024", 4, simt::uint64_t{1} << 30),
      state_parameter,   choice_parameter("dist", "uniform", "uniform|pow2"),
      heap_parameter,    block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "alloc_mixed",
      .brief = "every thread allocates one block of a random size from 4 bytes up, or of a power of two from 16 up, then frees it",
      .section = "Allocation",
      .parameters = parameters,
      .takes_baselines = true,
      .check = &check_drawn_sizes,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const largest = static_cast<simt::uint32_t>(p.number("bytes"));
    bool const powers = p.text("dist") == "pow2";
    return run_allocation_rounds<A>(
        s, p, random_requests{p.threads(), largest, powers, random_sequence{s.seed}, powers ? smallest_power_drawn : smallest_drawn});
  }
};

}  // namespace gpuheap::bench
