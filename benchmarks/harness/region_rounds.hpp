// What linear, quadratic, scan, gather and neighbour share: each thread asks for n floats together with all others, writes 0..n-1, works on
// them, and frees them; each of the three is timed by itself, in cycles.
//   N. Blach, M. Erhart, F. Memedi, A. Schaefer, "Coalescing memory allocations for GPU MPI", section 4.1, whose linear and quadratic
//   workloads these are. Three of its five are not published: scan, gather and neighbour are ours.
//
// One kernel for all, so that an allocator is compiled for it once; which work is done is the same in all threads.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_runs.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <string>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/give_back.hpp"
#include "harness/heap_under_test.hpp"

namespace gpuheap::bench {

// What is done with a region d of n floats, and how many additions and multiplications that are.
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
      // Ends: n passes, as all of these.
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

struct region_times {
  simt::uint64_t malloc_cycles, work_cycles, free_cycles;
};

// How threads ask: by the call that the allocator is best at (`together`), or each as if it were alone.
template <class Ref>
[[nodiscard]] GPUHEAP_FN void* ask_for_region(Ref const& heap, simt::size_t bytes, bool together, block_scratch& scratch,
                                              simt::lane_mask lanes) {
  using allocator = typename Ref::allocator_type;
  if (!together) return heap.malloc(bytes);
  if constexpr (has_malloc_by_block<allocator, live_block_threads>) {
    return heap.malloc_coalesced(live_block(scratch), bytes);
  } else {
    return heap.malloc_coalesced(this_warp(lanes), bytes);
  }
}

// The timed kernel.
template <class Ref>
struct work_on_regions {
  Ref heap;
  block_scratch* scratch;  // one a block
  unsigned threads;
  simt::uint32_t num_floats;
  simt::uint32_t stride;
  region_work work;
  bool together;
  float expected;
  region_times* times;
  simt::uint32_t* faults;  // {nulls, wrong results}

  GPUHEAP_FN void operator()(unsigned i) const {
    // The lanes that this warp has: it may be the last of its block, or of the launch.
    unsigned const first = simt::thread_in_block() - simt::lane_id();
    unsigned const before_warp = i - simt::lane_id();
    unsigned const here =
        simt::threads_per_block() - first < threads - before_warp ? simt::threads_per_block() - first : threads - before_warp;
    auto const lanes = static_cast<simt::lane_mask>(simt::low_bits(here < simt::warp_lanes ? here : simt::warp_lanes));
    region_times mine{};
    // A warp begins each part together; no access moves over the barriers.
    simt::sync_warp(lanes);
    auto const asked = simt::clock_cycles();
    auto* const d =
        static_cast<float*>(ask_for_region(heap, simt::size_t{num_floats} * sizeof(float), together, scratch[simt::block_id()], lanes));
    mine.malloc_cycles = simt::clock_cycles() - asked;

    unsigned const neighbour = simt::lane_id() + 1 < simt::popcount(lanes) ? simt::lane_id() + 1 : 0;
    simt::sync_warp(lanes);
    auto* const next = reinterpret_cast<float const*>(simt::shuffle(lanes, reinterpret_cast<simt::uint64_t>(d), neighbour));
    bool const all_there = simt::all_of(lanes, d != nullptr);
    if (all_there) {
      // Ends: once for each float.
      for (simt::uint32_t k = 0; k < num_floats; ++k) d[k] = static_cast<float>(k);
      simt::sync_warp(lanes);
      auto const began = simt::clock_cycles();
      float const result = do_region_work(work, d, next, num_floats, stride);
      if (work != region_work::neighbour && work != region_work::scan) d[0] = result;
      simt::sync_warp(lanes);
      mine.work_cycles = simt::clock_cycles() - began;
      if (result != expected) simt::atomic_ref<simt::uint32_t>{faults[1]}.fetch_add(1, simt::relaxed);  // relaxed, both: counts
    }
    if (d == nullptr) simt::atomic_ref<simt::uint32_t>{faults[0]}.fetch_add(1, simt::relaxed);
    simt::sync_warp(lanes);
    auto const freed = simt::clock_cycles();
    give_back(heap, d);
    mine.free_cycles = simt::clock_cycles() - freed;
    times[i] = mine;
  }
};

// Cycles and nanoseconds of about two milliseconds, from which follows the clock that the kernels ran at.
struct read_clocks {
  simt::uint64_t* out;  // {cycles, ns}
  GPUHEAP_FN void operator()(unsigned) const {
    constexpr unsigned most_looks = 1u << 16;
    auto const ns = simt::clock_ns(), cycles = simt::clock_cycles();
    simt::uint64_t now = ns;
    // Ends: after most_looks passes at the latest. Nothing is waited for.
    for (unsigned look = 0; look < most_looks && now - ns < 2'000'000; ++look) now = simt::clock_ns();
    out[0] = simt::clock_cycles() - cycles;
    out[1] = now - ns;
  }
};

inline constexpr parameter region_parameters[] = {
    number_parameter("threads", "12288", 1, std::uint64_t{1} << 22),
    number_parameter("floats", "100", 1, 400),
    choice_parameter("upstream", "own", "own|gpuheap"),  // where an allocator that coalesces takes its superblocks from
    choice_parameter("call", "together", "together|plain"),
    heap_parameter,
    number_parameter("block_threads", "1024", 1, 1024),
};

template <class A>
[[nodiscard]] outcome run_regions_on(session const& s, point const& p, region_work work) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
  auto const n = static_cast<simt::uint32_t>(p.number("floats"));
  unsigned const threads = p.threads();
  if (simt::uint64_t{threads} * n * sizeof(float) > s.heap_bytes)
    return unsupported("the regions do not fit into a heap of " + memory::in_words(s.heap_bytes));
  if (!hands_out_memory<A>()) return unsupported("this baseline hands out no memory to work on");
  std::vector<float> region(n);
  for (simt::uint32_t k = 0; k < n; ++k) region[k] = static_cast<float>(k);
  float const expected = do_region_work(work, region.data(), std::vector<float>(region).data(), n, gather_stride(n));

  using ref = typename heap_under_test<A>::ref_type;
  constexpr unsigned warm_ups = 2;
  owned_stream stream;
  heap_under_test<A> heap(s.heap_bytes, stream);
  launch_config const config{.block_threads = p.block_threads(), .stream = stream};
  device_array<block_scratch> scratch(simt::ceil_div(threads, p.block_threads()));
  device_array<region_times> times(threads);
  device_array<simt::uint32_t> faults(2);
  device_array<simt::uint64_t> clocks(2);
  work_on_regions<ref> const kernel{heap.ref(), scratch.data(), threads,      n, gather_stride(n), work, p.text("call") == "together",
                                    expected,   times.data(),   faults.data()};
  row malloc_cycles{"malloc_cycles", "cycles", {}}, work_cycles{"work_cycles", "cycles", {}}, free_cycles{"free_cycles", "cycles", {}},
      gflops{"gflops", "gflop/s", {}};
  for (unsigned run = 0; run < warm_ups + s.runs; ++run) {
    if (A::traits.free == frees::never && run != 0) heap.renew();
    faults.zero(stream);
    launch(threads, kernel, config);
    launch(1, read_clocks{clocks.data()}, {.block_threads = 32, .stream = stream});
    auto const found = faults.download(stream);
    if (found[0] != 0) return unsupported(std::to_string(found[0]) + " of " + std::to_string(threads) + " requests failed");
    if (found[1] != 0) return wrong(std::to_string(found[1]) + " of " + std::to_string(threads) + " threads have a wrong result");
    if (run < warm_ups) continue;
    double sums[3] = {};
    for (region_times const& t : times.download(stream)) {
      sums[0] += static_cast<double>(t.malloc_cycles);
      sums[1] += static_cast<double>(t.work_cycles);
      sums[2] += static_cast<double>(t.free_cycles);
    }
    for (double& sum : sums) sum /= threads;
    auto const clock = clocks.download(stream);
    double const cycles_per_ns = static_cast<double>(clock[0]) / static_cast<double>(clock[1] == 0 ? 1 : clock[1]);
    malloc_cycles.samples.push_back(sums[0]);
    work_cycles.samples.push_back(sums[1]);
    free_cycles.samples.push_back(sums[2]);
    // All operations over the mean time of a thread's work.
    gflops.samples.push_back(threads * operations_of(work, n) * cycles_per_ns / sums[1]);
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  return {outcome_status::ok, "", {std::move(malloc_cycles), std::move(work_cycles), std::move(free_cycles), std::move(gflops)}};
}

// Runs the point on A, or on A over the default allocator.
template <class A>
[[nodiscard]] outcome run_regions(session const& s, point const& p, region_work work) {
  if (p.text("upstream") == "own") return run_regions_on<A>(s, p, work);
  if constexpr (requires { typename A::template over<sharded_runs>; }) {
    return run_regions_on<typename A::template over<sharded_runs>>(s, p, work);
  } else {
    return unsupported("this allocator takes its memory from no other one");
  }
}

}  // namespace gpuheap::bench
