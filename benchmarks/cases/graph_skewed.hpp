// graph_skewed: a graph in which one vertex has millions of edges, like the most connected user of a social network: one list of many
// megabytes among very many of a few bytes. The list is made at once, or grown by batches. An allocator that cannot serve such a list is
// unsupported.
#pragma once

#include "cases/graph_update.hpp"

namespace gpuheap::bench {

struct graph_skewed {
  static constexpr parameter parameters[] = {
      choice_parameter("phase", "init", "init|insert"),
      number_parameter("hub", "2900000", 1, std::uint64_t{1} << 31),  // edges of vertex 0 besides those of the graph
      number_parameter("batches", "29", 1, 1000),                     // phase insert: in so many equal ones
      graph::graph_parameter,
      graph::scale_parameter,
      graph::edge_factor_parameter,
      heap_parameter,
  };
  static constexpr case_description description{
      .name = "graph_skewed",
      .brief = "a graph one vertex of which has millions of edges: made at once, or that vertex grown by batches",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const hub = p.number("hub"), batches = p.number("batches");
    if (p.text("phase") == "init") return graph::run_graph_rounds<A>(s, p, {.hub_edges = hub, .needs_all_lists = true});
    return graph::run_graph_rounds<A>(s, p,
                                      {.phase = graph::timed_phase::insert,
                                       .num_batches = static_cast<unsigned>(batches),
                                       .batch_size = static_cast<unsigned>(simt::ceil_div(hub, batches)),
                                       .range = 1,
                                       .first = 0,
                                       .needs_all_lists = true});
  }
};

}  // namespace gpuheap::bench
