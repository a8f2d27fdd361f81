// The common part of the graph cases: a graph that is built again and again, and batches of updates to it. After each run the whole graph
// is compared with the expected one.
#pragma once

#include <gpuheap/allocator.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/pace.hpp"
#include "workloads/graph/device_csr.hpp"
#include "workloads/graph/device_plan.hpp"
#include "workloads/graph/graph_run.hpp"
#include "workloads/graph/graph_source.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

// Updates in a batch; building has a thread per vertex instead.
inline constexpr parameter batch_threads_parameter = number_parameter("threads", "100000", 1, std::uint64_t{1} << 24);
inline constexpr parameter batches_parameter = number_parameter("batches", "4", 1, 1000);  // of a run, one after another

// The part of a run that is timed.
enum class timed_phase {
  build,
  insert,              // batches of inserts, the graph growing
  insert_then_delete,  // of each batch of inserts; it is then undone, untimed
  delete_inserted,     // the undoing of each batch
  mixed,               // batches of inserts and deletes
};

struct rounds {
  timed_phase phase = timed_phase::build;
  unsigned num_batches = 1;
  unsigned batch_size = 1;
  std::uint32_t range = 0;                            // update_plan.hpp
  std::uint32_t first = plan_parameters::any_vertex;  // likewise
  std::uint64_t hub_edges = 0;                        // graph_source.hpp
  bool needs_all_lists = false;                       // an allocator that refuses one cannot do the case
};

// Why the graph cannot be tried on A, or "".
template <class A>
[[nodiscard]] std::string why_no_graph(session const& s, device_csr const& edges) {
  if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return reason;
  if (A::traits.overwrites) return "this allocator overwrites live memory";
  std::uint64_t list_bytes = 0;
  for (auto const degree : edges.degrees) list_bytes += std::uint64_t{capacity_for(degree)} * sizeof(std::uint32_t);
  if (list_bytes <= s.heap_bytes) return "";
  return "the lists of the first graph take " + memory::format_bytes(list_bytes) + ", more than the heap of " +
         memory::format_bytes(s.heap_bytes);
}

template <class A>
[[nodiscard]] outcome run_graph_rounds(session const& s, point const& p, rounds const& what) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
  owned_stream stream;
  auto const edges = load_graph(s, p, stream, what.hub_edges);
  if (auto reason = why_no_graph<A>(s, *edges); !reason.empty()) return unsupported(std::move(reason));
  bool const only_build = what.phase == timed_phase::build;
  bool const undoing = what.phase == timed_phase::insert_then_delete || what.phase == timed_phase::delete_inserted;
  std::shared_ptr<device_plan const> plan;
  if (!only_build) {
    plan = load_plan({.num_vertices = edges->num_vertices,
                      .num_batches = what.num_batches,
                      .size = what.batch_size,
                      .range = what.range,
                      .first = what.first,
                      .mixed = what.phase == timed_phase::mixed,
                      .seed = s.seed},
                     undoing, stream);
  }

  heap_under_test<A> heap(s.heap_bytes, stream);
  kernel_timer timer(stream);
  row times = only_build ? row{"build_ms", "ms", {}} : row{"kernel_us", "us", {}};
  row allocations{"allocations", "count", {}}, failed_requests{"failed_requests", "count", {}};
  auto const record = [&](double time, memory_counts counts) {
    times.samples.push_back(time);
    allocations.samples.push_back(static_cast<double>(counts.allocations));
    failed_requests.samples.push_back(static_cast<double>(counts.failed_requests));
  };

  pace const timing(s);
  unsigned counted = 0;  // runs
  // Run 0 warms up.
  for (unsigned run = 0; run == 0 || !timing.enough(counted, times.samples.size()); ++run) {
    if (A::traits.free == frees::never && run != 0) heap.renew();
    graph_run<typename heap_under_test<A>::ref_type> work(*edges, heap.ref(), timer, stream);
    std::uint64_t run_failed = work.build_counts().failed_requests;
    if (only_build && run != 0) record(work.build_us() / 1000, work.build_counts());
    std::size_t const num_batches = only_build ? 0 : plan->batches.size();
    for (std::size_t b = 0; b < num_batches; ++b) {
      double const done = run + static_cast<double>(b) / static_cast<double>(num_batches);
      if (auto reason = timing.too_slow(done, 1 - done); run == 0 && !reason.empty())
        return timed_out("one run of " + std::to_string(num_batches) + " batches " + reason);
      auto const make = [&](device_batch const& batch, bool timed) {
        auto const applied = work.apply(batch);
        if (timed && run != 0) record(applied.us, applied.counts);
        run_failed += applied.counts.failed_requests;
        return applied.fault.empty() ? "" : "run " + std::to_string(run) + ", batch " + std::to_string(b) + ": " + applied.fault;
      };
      bool const prologue = what.phase == timed_phase::mixed && b == 0;
      if (auto fault = make(plan->batches[b], what.phase != timed_phase::delete_inserted && !prologue); !fault.empty())
        return wrong(std::move(fault));
      if (!undoing) continue;
      if (auto fault = make(plan->undone[b], what.phase == timed_phase::delete_inserted); !fault.empty()) return wrong(std::move(fault));
    }
    if (auto fault = work.compare(); !fault.empty()) return wrong("run " + std::to_string(run) + ": " + fault);
    work.deallocate();
    if (run_failed != 0) {
      if (what.needs_all_lists) return unsupported(std::to_string(run_failed) + " requests for lists failed");
      if (A::traits.free == frees::never)
        return unsupported("this allocator never reuses freed memory: the lists left behind do not fit into a heap of " +
                           memory::format_bytes(s.heap_bytes));
    }
    counted += run != 0;
    auto const samples_lacking = static_cast<double>(timing.lacking(times.samples.size()));
    double const runs_lacking = std::ceil(samples_lacking / static_cast<double>(std::max<std::size_t>(num_batches, 1)));
    if (auto reason = timing.too_slow(run + 1, runs_lacking); !reason.empty()) return timed_out(std::move(reason));
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  return {outcome_status::ok, "", {std::move(times), std::move(allocations), std::move(failed_requests)}};
}

}  // namespace gpuheap::bench::graph
