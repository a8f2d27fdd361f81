// alloc_bounded: alloc_single with kernels that are compiled with a bound on the registers of a thread, or with the bound that suits the
// allocator best. All other cases compile their kernels without a bound, as most programs do.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cases/alloc_single.hpp"

namespace gpuheap::bench {

// Kernels of which a multiprocessor holds so many blocks at once.
inline constexpr unsigned bounded_block = 256;
template <unsigned Blocks>
struct bounded_kernel {
  template <class Kernel>
  struct type : Kernel {
    static constexpr unsigned largest_block = bounded_block, blocks_at_once = Blocks;
  };
};

struct alloc_bounded {
  static constexpr parameter parameters[] = {
      threads_parameter, bytes_parameter, choice_parameter("registers", "best", "best|none|32|40|48|64|80"),
      state_parameter,   heap_parameter,  block_threads_parameter};
  static constexpr case_description description{
      .name = "alloc_bounded",
      .brief = "every thread allocates one block, then frees it, in kernels with the bound on registers that suits the allocator best",
      .section = "Code",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (p.block_threads() > bounded_block)
      return unsupported("kernels with a bound have blocks of " + std::to_string(bounded_block) + " threads at most");
    std::string const& registers = p.text("registers");
    outcome best;
    double least = 0;
    // A multiprocessor has 65,536 registers: so many blocks of `bounded_block` threads at once leave each thread the number that the point
    // names.
    auto const consider = [&]<template <class> class As>(char const* name, double bound) {
      if (registers != "best" && registers != name) return;
      outcome result = run_allocation_rounds<A, equal_requests, As>(s, p, equal_requests{p.threads(), p.number("bytes")});
      if (result.status != outcome_status::ok) {
        // A later bound may do.
        if (best.rows.empty()) best = std::move(result);
        return;
      }
      double const us = median_of(result.rows[0].samples) + median_of(result.rows[1].samples);
      if (!best.rows.empty() && us >= least) return;
      least = us;
      result.rows.push_back({"registers_bound", "count", std::vector<double>(result.rows[0].samples.size(), bound)});
      best = std::move(result);
    };
    consider.template operator()<as_it_is>("none", 0);
    consider.template operator()<bounded_kernel<8>::type>("32", 32);
    consider.template operator()<bounded_kernel<6>::type>("40", 40);
    consider.template operator()<bounded_kernel<5>::type>("48", 48);
    consider.template operator()<bounded_kernel<4>::type>("64", 64);
    consider.template operator()<bounded_kernel<3>::type>("80", 80);
    return best;
  }

 private:
  [[nodiscard]] static double median_of(std::vector<double> samples) {
    std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
    return samples[samples.size() / 2];
  }
};

}  // namespace gpuheap::bench
