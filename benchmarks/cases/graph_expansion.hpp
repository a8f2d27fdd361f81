// graph_expansion: a graph that grows by batches of edges and never shrinks. Batch after batch the lists are longer, and those left behind
// are to be used again.
#pragma once

#include "cases/graph_update.hpp"

namespace gpuheap::bench {

struct graph_expansion {
  static constexpr parameter parameters[] = {
      graph::batch_threads_parameter,
      graph::batches_parameter,
      number_parameter("range", "0", 0, std::uint64_t{1} << 31),  // vertices that get the edges of a batch; 0: all
      graph::graph_parameter,
      graph::scale_parameter,
      graph::edge_factor_parameter,
      heap_parameter,
  };
  static constexpr case_description description{
      .name = "graph_expansion",
      .brief = "a whole graph to which batches of edges are added one after another",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return graph::run_graph_rounds<A>(s, p,
                                      {.phase = graph::timed_phase::insert,
                                       .num_batches = static_cast<unsigned>(p.number("batches")),
                                       .batch_size = p.threads(),
                                       .range = static_cast<std::uint32_t>(p.number("range"))});
  }
};

}  // namespace gpuheap::bench
