// graph_update: a graph of adjacency lists on the heap, to which threads insert and from which they delete edges in batches whose sources
// are drawn from all vertices. A list that crosses a power of two moves to a block of that size.
#pragma once

#include "workloads/graph/graph_rounds.hpp"

namespace gpuheap::bench {

// Updates of one size, and what is timed of them.
[[nodiscard]] inline graph::rounds graph_rounds_of(point const& p) {
  using graph::timed_phase;
  auto const& phase = p.text("phase");
  return {.phase = phase == "init"     ? timed_phase::build
                   : phase == "insert" ? timed_phase::insert_then_delete
                   : phase == "delete" ? timed_phase::delete_inserted
                                       : timed_phase::mixed,
          .num_batches = static_cast<unsigned>(p.number("batches")),
          .batch_size = p.threads()};
}

struct graph_update {
  static constexpr parameter parameters[] = {
      graph::batch_threads_parameter,
      graph::batches_parameter,
      choice_parameter("phase", "update", "init|insert|delete|update"),  // update: inserts and deletes in one launch
      graph::graph_parameter,
      graph::scale_parameter,
      graph::edge_factor_parameter,
      heap_parameter,
  };
  static constexpr case_description description{
      .name = "graph_update",
      .brief = "adjacency lists in powers of two: built from a graph, then edges inserted and deleted in batches, a warp for each list",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return graph::run_graph_rounds<A>(s, p, graph_rounds_of(p));
  }
};

}  // namespace gpuheap::bench
