// Running a check of a structure under many schedules. A check sets up all that it uses and returns what is wrong, or an empty text.
// GPUHEAP_SEEDS replaces the number of seeds of every case that must pass.
#pragma once

#include <gpuheap/simt/explore.hpp>
#include <gpuheap/simt/simt.hpp>
#include "../support/seeds.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace structures_test {

namespace simt = gpuheap::simt;

inline constexpr unsigned explored_threads = 80;  // in blocks of 64: two warps of a block, and half a warp of another
inline constexpr unsigned many_threads = 4096;

using test::num_seeds;

// The check finds nothing wrong under any of the schedules.
template <class Check>
void expect_passes(std::uint64_t seeds, Check check) {
  std::string problem;
  simt::exploration const e = simt::explore(num_seeds(seeds), [&] {
    problem = check();
    return problem.empty();
  });
  EXPECT_TRUE(e) << problem << "\n" << e.what;
}

// Adds a sentence of an audit to a text if a condition does not hold.
inline void require(std::string& problems, bool holds, std::string const& otherwise) {
  if (!holds) problems += otherwise + "\n";
}

}  // namespace structures_test
