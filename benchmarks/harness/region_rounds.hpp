// The common part of linear, quadratic, scan, gather and neighbour: each thread requests n floats together with all others, writes 0..n-1,
// works on them, and frees them; each of the three steps is timed by itself, in cycles.
//   N. Blach, M. Erhart, F. Memedi, A. Schaefer, "Coalescing memory allocations for GPU MPI", section 4.1, which has the linear and
//   quadratic workloads. Three of its five are not published: scan, gather and neighbour are this project's.
//
// One kernel serves all works, so that an allocator is compiled for it once; all threads do the same work. With phases=apart the three
// steps are kernels of their own.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/pace.hpp"
#include "harness/region_work.hpp"

namespace gpuheap::bench {

struct region_times {
  simt::uint64_t malloc_cycles, work_cycles, free_cycles;
};

// The call by which threads ask: the one that suits the allocator best (`together`), or the call of a thread that asks alone.
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

// The requests and frees of regions. All lanes of a warp begin either of them together; no access moves across the barriers.
template <class Ref>
struct region_source {
  Ref heap;
  block_scratch* scratch;  // one a block
  simt::size_t bytes;
  bool together;

  [[nodiscard]] GPUHEAP_FN float* ask(simt::lane_mask lanes, simt::uint64_t& cycles) const {
    simt::sync_warp(lanes);
    auto const asked = simt::clock_cycles();
    auto* const d = static_cast<float*>(ask_for_region(heap, bytes, together, scratch[simt::block_id()], lanes));
    cycles = simt::clock_cycles() - asked;
    return d;
  }
  GPUHEAP_FN void take_back(float* d, simt::lane_mask lanes, simt::uint64_t& cycles) const {
    simt::sync_warp(lanes);
    auto const freed = simt::clock_cycles();
    free_or_release(heap, d);
    cycles = simt::clock_cycles() - freed;
  }
};

// phases=one: a thread goes on with its region as soon as it has it, whatever others still wait for.
template <class Ref>
struct use_regions {
  static constexpr unsigned largest_block = 1024;  // as the paper's blocks are; a program of such blocks has to say so

  region_source<Ref> source;
  region_job job;
  region_times* times;

  GPUHEAP_FN void operator()(unsigned i) const {
    simt::lane_mask const lanes = job.lanes_of(i);
    region_times mine{};
    float* const d = source.ask(lanes, mine.malloc_cycles);
    mine.work_cycles = job.do_with(d, lanes);
    source.take_back(d, lanes, mine.free_cycles);
    times[i] = mine;
  }
};

// phases=apart: a launch for each part, so that all threads work at the same time, by the same code over every allocator.
template <class Ref>
struct ask_for_regions {
  static constexpr unsigned largest_block = 1024;

  region_source<Ref> source;
  region_job job;
  region_times* times;
  float** regions;
  GPUHEAP_FN void operator()(unsigned i) const { regions[i] = source.ask(job.lanes_of(i), times[i].malloc_cycles); }
};
struct work_on_regions {
  region_job job;
  region_times* times;
  float* const* regions;
  GPUHEAP_FN void operator()(unsigned i) const { times[i].work_cycles = job.do_with(regions[i], job.lanes_of(i)); }
};
template <class Ref>
struct take_back_regions {
  static constexpr unsigned largest_block = 1024;

  region_source<Ref> source;
  region_job job;
  region_times* times;
  float* const* regions;
  GPUHEAP_FN void operator()(unsigned i) const { source.take_back(regions[i], job.lanes_of(i), times[i].free_cycles); }
};

// Cycles and nanoseconds of about two milliseconds, from which follows the clock that the kernels ran at.
struct read_clocks {
  simt::uint64_t* out;  // {cycles, ns}
  GPUHEAP_FN void operator()(unsigned) const {
    constexpr unsigned most_looks = 1u << 16;
    auto const ns = simt::clock_ns(), cycles = simt::clock_cycles();
    simt::uint64_t now = ns;
    // The loop waits for no other thread.
    for (unsigned look = 0; look < most_looks && now - ns < 2'000'000; ++look) now = simt::clock_ns();
    out[0] = simt::clock_cycles() - cycles;
    out[1] = now - ns;
  }
};

inline constexpr parameter region_parameters[] = {
    number_parameter("threads", "12288", 1, std::uint64_t{1} << 22),
    number_parameter("floats", "100", 1, 400),
    choice_parameter("upstream", "own", "own|sharded_spans"),  // where an allocator that coalesces takes its superblocks from
    choice_parameter("call", "together", "together|plain"),
    // A launch of all three parts; a launch for each; or another one of the work before the timed one, on the same regions.
    choice_parameter("phases", "one", "one|apart|again"),
    heap_parameter,
    number_parameter("block_threads", "1024", 1, 1024),
};

// The least distance, in bytes, between the regions of neighbouring lanes of a warp.
[[nodiscard]] inline double least_distance(std::vector<float*> const& regions) {
  auto least = std::numeric_limits<simt::uint64_t>::max();
  for (std::size_t i = 1; i < regions.size(); ++i) {
    if (i % simt::warp_lanes == 0) continue;
    auto const one = reinterpret_cast<simt::uint64_t>(regions[i - 1]), next = reinterpret_cast<simt::uint64_t>(regions[i]);
    least = std::min(least, one < next ? next - one : one - next);
  }
  return static_cast<double>(least);
}

template <class A>
[[nodiscard]] outcome run_regions_on(session const& s, point const& p, region_work work) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
  auto const n = static_cast<simt::uint32_t>(p.number("floats"));
  unsigned const threads = p.threads();
  if (simt::uint64_t{threads} * n * sizeof(float) > s.heap_bytes)
    return unsupported("the regions do not fit into a heap of " + memory::format_bytes(s.heap_bytes));
  if (!hands_out_memory<A>()) return unsupported("this baseline allocates no memory to work on");
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
  region_job const job{threads, n, gather_stride(n), work, expected, faults.data()};
  region_source<ref> const source{heap.ref(), scratch.data(), n * sizeof(float), p.text("call") == "together"};
  std::string const phases = p.text("phases");
  device_array<float*> regions(phases == "one" ? 0 : threads);
  row malloc_cycles{"malloc_cycles", "cycles", {}}, work_cycles{"work_cycles", "cycles", {}}, free_cycles{"free_cycles", "cycles", {}},
      gflops{"gflops", "gflop/s", {}}, slot_bytes{"slot_bytes", "bytes", {}};
  pace const timing(s);
  for (unsigned run = 0; !timing.enough(malloc_cycles.samples.size()); ++run) {
    if (auto reason = timing.too_slow_after(run, malloc_cycles.samples.size()); !reason.empty()) return timed_out(std::move(reason));
    if (A::traits.free == frees::never && run != 0) heap.renew();
    faults.zero(stream);
    if (phases == "one") {
      launch(threads, use_regions<ref>{source, job, times.data()}, config);
    } else {
      launch(threads, ask_for_regions<ref>{source, job, times.data(), regions.data()}, config);
      work_on_regions const do_work{job, times.data(), regions.data()};
      if (phases == "again") launch(threads, do_work, config);
      launch(threads, do_work, config);
      launch(threads, take_back_regions<ref>{source, job, times.data(), regions.data()}, config);
    }
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
    if (phases != "one" && threads > 1) slot_bytes.samples.push_back(least_distance(regions.download(stream)));
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  outcome result{outcome_status::ok, "", {std::move(malloc_cycles), std::move(work_cycles), std::move(free_cycles), std::move(gflops)}};
  if (!slot_bytes.samples.empty()) result.rows.push_back(std::move(slot_bytes));
  return result;
}

// Runs the point on A, or on A over the default allocator.
template <class A>
[[nodiscard]] outcome run_regions(session const& s, point const& p, region_work work) {
  if (p.text("upstream") == "own") return run_regions_on<A>(s, p, work);
  if constexpr (requires { typename A::template over<sharded_spans>; }) {
    return run_regions_on<typename A::template over<sharded_spans>>(s, p, work);
  } else {
    return unsupported("this allocator takes its memory from no other one");
  }
}

}  // namespace gpuheap::bench
