// For mutants: allocators of the tests alone that restore a published mistake, so that the tests for it are known to see it.
#pragma once

#include "../support/blocks.hpp"
#include "../support/rng.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/heap.hpp>
#include <gpuheap/simt/explore.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hazards {

namespace simt = gpuheap::simt;
using namespace gpuheap::literals;
using test::num_seeds;

// A counter in front of a pool: what the bump allocators of this folder share. `Take` says how a block is taken.
template <class Counter, class Take>
class bump_mutant {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "mutant", .free = gpuheap::frees::never};

  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    simt::uint64_t const start = Take::take(*top_, simt::round_up_pow2(bytes, 16), pool_bytes_);
    return start == Take::none ? nullptr : pool_ + start;
  }
  GPUHEAP_FN void free(void*) const {}

  static simt::size_t min_region_bytes() { return 512; }
  static bump_mutant create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    bump_mutant m;
    m.top_ = static_cast<Counter*>(region.base);
    m.pool_ = static_cast<char*>(region.base) + 256;
    m.pool_bytes_ = (region.bytes - 256) & ~simt::size_t{15};
    simt::fill(region.base, 0, 256, stream);
    return m;
  }

 private:
  Counter* top_ = nullptr;
  char* pool_ = nullptr;
  simt::size_t pool_bytes_ = 0;
};

// Whether no two of the blocks that are there overlap.
[[nodiscard]] inline bool are_apart(test::block_set& b) {
  struct interval {
    std::uintptr_t begin, end;
  };
  auto const p = b.pointers().read();
  std::vector<interval> live;
  for (std::size_t i = 0; i < p.size(); ++i) {
    auto const at = reinterpret_cast<std::uintptr_t>(p[i]);
    if (p[i] != nullptr) live.push_back({at, at + b.sizes()[i]});
  }
  std::sort(live.begin(), live.end(), [](interval x, interval y) { return x.begin < y.begin; });
  for (std::size_t i = 1; i < live.size(); ++i) {
    if (live[i - 1].end > live[i].begin) return false;
  }
  return true;
}

// The expected outcome of exploring: an allocator that is right passes, and a mutant fails.
template <class Body>
void expect_right(std::uint64_t seeds, Body body) {
  auto const result = simt::explore(seeds, body);
  EXPECT_TRUE(result) << result.what << ", seed " << result.seed;
}
template <class Body>
void expect_found(std::uint64_t seeds, Body body) {
  auto const result = simt::explore(seeds, body);
  EXPECT_FALSE(result) << "the mistake was not found within " << seeds << " seeds";
}

}  // namespace hazards
