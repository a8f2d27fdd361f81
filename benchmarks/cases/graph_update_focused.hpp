// graph_update_focused: graph_update, but the edges of a batch belong to few vertices that lie side by side, so that their lists grow over
// several powers of two.
#pragma once

#include "cases/graph_update.hpp"

namespace gpuheap::bench {

inline constexpr parameter range_parameter = number_parameter("range", "1000", 1, std::uint64_t{1} << 31);

struct graph_update_focused {
  static constexpr parameter parameters[] = {
      graph::batch_threads_parameter,
      graph::batches_parameter,
      choice_parameter("phase", "insert", "insert|delete"),
      range_parameter,  // vertices that get the edges of a batch
      graph::graph_parameter,
      graph::scale_parameter,
      graph::edge_factor_parameter,
      heap_parameter,
  };
  static constexpr case_description description{
      .name = "graph_update_focused",
      .brief = "edges inserted into and deleted from the lists of few vertices, others in each batch",
      .section = "Applications",
      .parameters = parameters,
      .check = &graph::check_graph,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto what = graph_rounds_of(p);
    what.range = static_cast<std::uint32_t>(p.number("range"));
    return graph::run_graph_rounds<A>(s, p, what);
  }
};

}  // namespace gpuheap::bench
