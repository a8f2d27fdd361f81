// The graph that a point of a graph case starts from.
#pragma once

#include <memory>

#include "harness/case.hpp"
#include "workloads/graph/device_csr.hpp"

namespace gpuheap::bench::graph {

// The parameters of a point that choose its graph: `graph`, a Matrix Market file (NAME.mtx) or the name of a generated one (named.hpp),
// falls back to the session's file; without either, R-MAT of `scale` and `edge_factor` by the session's seed.
inline constexpr parameter graph_parameter = text_parameter("graph", "");
inline constexpr parameter scale_parameter = number_parameter("scale", "14", 1, 26);
inline constexpr parameter edge_factor_parameter = number_parameter("edge_factor", "16", 1, 256);

// The graph, vertex 0 of which gets `hub_edges` more. The last one made is kept, since neighbouring points of a sweep share it. Throws
// usage_error for an unknown name, a bad file or one without edges, and out_of_memory.
[[nodiscard]] std::shared_ptr<device_csr const> load_graph(session const& s, point const& p, stream_ref stream,
                                                           std::uint64_t hub_edges = 0);

// Gives back the memory of the graph that is kept.
void forget_graph();

// Looks at the point's name, or reads its file, and throws usage_error if it is bad.
void check_graph(session const& s, point const& p);

}  // namespace gpuheap::bench::graph
