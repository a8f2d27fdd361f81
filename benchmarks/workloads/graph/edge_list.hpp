// A directed graph as a list of edges. Edges may repeat and may be loops.
#pragma once

#include <cstdint>
#include <vector>

namespace gpuheap::bench::graph {

struct edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  friend bool operator==(edge const&, edge const&) = default;
};

struct edge_list {
  std::uint32_t num_vertices = 0;
  std::vector<edge> edges;
};

}  // namespace gpuheap::bench::graph
