// The graph that a point of a graph case starts from.
#pragma once

#include <memory>
#include <string>

#include "harness/case.hpp"
#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

// The parameters of a point that choose its graph: `graph`, a Matrix Market file, falls back to the session's file; without either, R-MAT
// of `scale` and `edge_factor` by the session's seed.
inline constexpr parameter graph_parameter = text_parameter("graph", "");
inline constexpr parameter scale_parameter = number_parameter("scale", "14", 1, 26);
inline constexpr parameter edge_factor_parameter = number_parameter("edge_factor", "16", 1, 256);

// The file, or "" for a generated graph.
[[nodiscard]] std::string graph_file(session const& s, point const& p);

// The graph. The last one made is kept, since neighbouring points of a sweep share it. Throws usage_error for a bad file or one without
// edges.
[[nodiscard]] std::shared_ptr<edge_list const> load_graph(session const& s, point const& p);

// Reads the point's file, if it names one, and throws usage_error if it is bad.
void check_graph(session const& s, point const& p);

}  // namespace gpuheap::bench::graph
