// graph_update: a graph of adjacency lists on the heap, to which threads insert and from which they delete edges in batches, one thread per
// update. After the batches the whole graph is compared with one kept on the host.
#pragma once

#include <gpuheap/allocator.hpp>

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/give_back.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "workloads/graph/csr.hpp"
#include "workloads/graph/graph_run.hpp"
#include "workloads/graph/graph_source.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench {

struct graph_update {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "100000", 1, std::uint64_t{1} << 24),  // updates in a batch; phase init has a thread per vertex instead
      number_parameter("batches", "4", 1, 1000),                         // of a run, one after another
      choice_parameter("phase", "update", "init|insert|delete|update"),  // update: inserts and deletes in one launch
      graph::graph_parameter,
      graph::scale_parameter,
      graph::edge_factor_parameter,
  };
  static constexpr case_description description{
      .name = "graph_update",
      .brief = "adjacency lists that double when full: built from a graph, then edges inserted and deleted by many threads at once",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  // Why the graph cannot be tried on A, or "".
  template <class A>
  static std::string why_not(session const& s, point const& p, graph::edge_list const& list, graph::csr const& arrays) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return reason;
    if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return reason;
    if (A::traits.overwrites) return "this allocator overwrites live memory";
    std::uint64_t list_bytes = 0;
    for (std::size_t v = 0; v < list.num_vertices; ++v) {
      list_bytes += std::bit_ceil(arrays.offsets[v + 1] - arrays.offsets[v]) * sizeof(std::uint32_t);
    }
    if (list_bytes > s.heap_bytes) {
      return "the lists of the first graph take " + memory::in_words(list_bytes) + ", more than the heap of " +
             memory::in_words(s.heap_bytes);
    }
    std::uint64_t const deletes = p.text("phase") == "delete"   ? p.number("threads") * p.number("batches")
                                  : p.text("phase") == "update" ? p.number("threads") / 2
                                                                : 0;
    if (deletes >= list.edges.size())
      return "the graph has " + std::to_string(list.edges.size()) + " edges: too few to delete " + std::to_string(deletes);
    return "";
  }

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const list = graph::load_graph(s, p);
    auto const arrays = graph::make_csr(*list);
    if (auto reason = why_not<A>(s, p, *list, arrays); !reason.empty()) return unsupported(std::move(reason));
    bool const only_init = p.text("phase") == "init";
    auto const kind = p.text("phase") == "insert"   ? graph::batch_kind::inserts
                      : p.text("phase") == "delete" ? graph::batch_kind::deletes
                                                    : graph::batch_kind::both;

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    kernel_timer timer(stream);
    graph::device_edges const edges(arrays, stream);
    row times = only_init ? row{"build_ms", "ms", {}} : row{"kernel_us", "us", {}};
    row allocations{"allocations", "count", {}}, nulls{"nulls", "count", {}};
    auto const record = [&](double time, graph::memory_counts counts) {
      times.samples.push_back(time);
      allocations.samples.push_back(counts.allocations);
      nulls.samples.push_back(counts.nulls);
    };

    // Each run starts from the same graph with batches of its own; run 0 warms up.
    for (unsigned run = 0; run <= s.runs; ++run) {
      if (A::traits.free == frees::never && run != 0) heap.renew();
      graph::graph_run<typename heap_under_test<A>::ref_type> work(*list, edges, heap.ref(), timer, stream);
      double run_nulls = work.build_counts().nulls;
      if (only_init && run != 0) record(work.build_us() / 1000, work.build_counts());
      if (!only_init) {
        graph::update_plan plan(*list, s.seed + run);
        for (std::uint64_t b = 0; b < p.number("batches"); ++b) {
          auto const applied = work.apply(plan.next(kind, p.threads()));
          if (!applied.fault.empty()) return wrong("run " + std::to_string(run) + ", batch " + std::to_string(b) + ": " + applied.fault);
          if (run != 0) record(applied.us, applied.counts);
          run_nulls += applied.counts.nulls;
        }
      }
      if (auto fault = work.compare(); !fault.empty()) return wrong("run " + std::to_string(run) + ": " + fault);
      if (A::traits.free == frees::never && run_nulls != 0) {
        return unsupported("this allocator never takes memory back: the lists left behind do not fit into a heap of " +
                           memory::in_words(s.heap_bytes));
      }
      work.give_back();
    }
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(times), std::move(allocations), std::move(nulls)}};
  }
};

}  // namespace gpuheap::bench
