// Generated graphs that stand for published ones: as many vertices and edges, and lists as uneven as theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/graph/generated.hpp"

namespace gpuheap::bench::graph {

struct named_graph {
  char const* name;  // like_ and the name in the collection: no row of a generated graph bears the name of a real one
  char const* collection;
  graph_shape shape;
  std::uint32_t num_vertices;
  std::uint64_t num_edges;       // each in both directions
  std::uint32_t largest_degree;  // skewed: about
};

[[nodiscard]] std::vector<named_graph> const& named_graphs();

// The graph of that name, from a seed. Throws usage_error for a name that is not in the table.
[[nodiscard]] generated_graph make_named(std::string const& name, std::uint64_t seed);

}  // namespace gpuheap::bench::graph
