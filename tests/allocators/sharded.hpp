// Common parts of the tests of the default allocator: its tunings, heaps for it, and its exploration under many schedules.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/simt/explore.hpp>
#include "../support/seeds.hpp"
#include "eager.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>

namespace sharded_test {

namespace simt = gpuheap::simt;

// The allocator as it is shipped.
using plain = gpuheap::sharded_spans;

GPUHEAP_FN inline void count(unsigned& what) { (void)simt::atomic_ref<unsigned>{what}.fetch_add(1, simt::relaxed); }

// Runs `body` under the schedules of many seeds, half of them in the weak memory mode.
template <class Body>
void explore(char const* what, Body body) {
  simt::exploration const result = simt::explore(test::num_seeds(40), [&] {
    body();
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(result) << what << ": " << result.what << "\nafter " << result.num_runs << " runs, seed " << result.seed;
}

}  // namespace sharded_test
