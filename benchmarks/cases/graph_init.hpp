// graph_init: the adjacency lists of a graph made by one kernel, a thread for each vertex, and filled by another.
#pragma once

#include "cases/graph_update.hpp"

namespace gpuheap::bench {

struct graph_init {
  static constexpr parameter parameters[] = {graph::graph_parameter, graph::scale_parameter, graph::edge_factor_parameter, heap_parameter};
  static constexpr case_description description{
      .name = "graph_init",
      .brief = "adjacency lists in powers of two, made and filled from a graph",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    return graph::run_graph_rounds<A>(s, p, {});
  }
};

}  // namespace gpuheap::bench
