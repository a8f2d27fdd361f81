// The work of the threads of linear, quadratic, scan, gather and neighbour on their regions, and the check of its result
// (region_rounds.hpp).
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::bench {

// The work on a region d of n floats, and its number of additions and multiplications.
enum class region_work {
  linear,     // sum of d[i]                              n
  quadratic,  // sum of d[i] * d[j] for all i, j          2 n^2
  scan,       // d[i] += d[i - 1]                         n
  gather,     // sum of d[(i * stride) mod n]             n
  neighbour,  // sum of the next thread's d[i]            n
};
[[nodiscard]] constexpr double operations_of(region_work work, double n) { return work == region_work::quadratic ? 2 * n * n : n; }

// A step through n floats that comes to each of them: prime, and no divisor of n.
[[nodiscard]] constexpr simt::uint32_t gather_stride(simt::uint32_t n) { return n % 17 != 0 ? 17 : 13; }

// The float that the work leaves in d[0], or of scan in d[n - 1], in the same order of operations on either side. Up to n = 400 every
// product is exact, so that it makes no difference whether it is fused with the addition.
[[nodiscard]] GPUHEAP_HD inline float do_region_work(region_work work, float* d, float const* next, simt::uint32_t n,
                                                     simt::uint32_t stride) {
  float sum = 0;
  switch (work) {
    case region_work::linear:
      for (simt::uint32_t i = 0; i < n; ++i) sum += d[i];
      break;
    case region_work::quadratic:
      for (simt::uint32_t i = 0; i < n; ++i) {
        for (simt::uint32_t j = 0; j < n; ++j) sum += d[i] * d[j];
      }
      break;
    case region_work::scan:
      for (simt::uint32_t i = 0; i < n; ++i) {
        sum += d[i];
        d[i] = sum;
      }
      return sum;
    case region_work::gather:
      for (simt::uint32_t i = 0, at = 0; i < n; ++i) {
        sum += d[at];
        at += stride;
        if (at >= n) at %= n;
      }
      break;
    case region_work::neighbour:
      for (simt::uint32_t i = 0; i < n; ++i) sum += next[i];
      break;
  }
  return sum;
}

// The work of one launch. It knows no allocator.
struct region_job {
  unsigned threads;
  simt::uint32_t num_floats;
  simt::uint32_t stride;
  region_work work;
  float expected;
  simt::uint32_t* faults;  // {failed_requests, wrong results}

  // The lanes that the warp of thread i has: it may be the last of its block, or of the launch.
  [[nodiscard]] GPUHEAP_FN simt::lane_mask lanes_of(unsigned i) const {
    unsigned const first = simt::thread_in_block() - simt::lane_id();
    unsigned const before_warp = i - simt::lane_id();
    unsigned const here =
        simt::threads_per_block() - first < threads - before_warp ? simt::threads_per_block() - first : threads - before_warp;
    return static_cast<simt::lane_mask>(simt::low_bits(here < simt::warp_lanes ? here : simt::warp_lanes));
  }

  // Fills region d and works on it, with the other lanes; the cycles of the work, 0 if one of them has no region.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t do_with(float* d, simt::lane_mask lanes) const {
    simt::uint64_t cycles = 0;
    unsigned const neighbour = simt::lane_id() + 1 < simt::popcount(lanes) ? simt::lane_id() + 1 : 0;
    simt::sync_warp(lanes);
    auto* const next = reinterpret_cast<float const*>(simt::shuffle(lanes, reinterpret_cast<simt::uint64_t>(d), neighbour));
    bool const all_there = simt::all_of(lanes, d != nullptr);
    if (all_there) {
      for (simt::uint32_t k = 0; k < num_floats; ++k) d[k] = static_cast<float>(k);
      simt::sync_warp(lanes);
      auto const began = simt::clock_cycles();
      float const result = do_region_work(work, d, next, num_floats, stride);
      if (work != region_work::neighbour && work != region_work::scan) d[0] = result;
      simt::sync_warp(lanes);
      cycles = simt::clock_cycles() - began;
      if (result != expected) simt::atomic_ref<simt::uint32_t>{faults[1]}.fetch_add(1, simt::relaxed);  // relaxed, both: counts
    }
    if (d == nullptr) simt::atomic_ref<simt::uint32_t>{faults[0]}.fetch_add(1, simt::relaxed);
    return cycles;
  }
};

}  // namespace gpuheap::bench
