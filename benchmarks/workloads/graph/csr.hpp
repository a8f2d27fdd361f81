// A graph as arrays: the neighbours of all vertices one after another, and where each vertex's begin.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

struct csr {
  std::vector<std::uint64_t> offsets;     // num_vertices + 1, ascending from 0
  std::vector<std::uint32_t> sources;     // of each edge below: the vertex it belongs to
  std::vector<std::uint32_t> neighbours;  // of vertex v: offsets[v] .. offsets[v + 1], in the order of the list
};

[[nodiscard]] inline csr make_csr(edge_list const& list) {
  std::size_t const num_edges = list.edges.size();
  csr made{std::vector<std::uint64_t>(std::size_t{list.num_vertices} + 1, 0), std::vector<std::uint32_t>(num_edges),
           std::vector<std::uint32_t>(num_edges)};
  for (edge const& e : list.edges) ++made.offsets[e.from + std::size_t{1}];
  for (std::size_t v = 0; v < list.num_vertices; ++v) made.offsets[v + 1] += made.offsets[v];
  std::vector<std::uint64_t> next(made.offsets.begin(), made.offsets.end() - 1);
  for (edge const& e : list.edges) {
    auto const at = next[e.from]++;
    made.sources[at] = e.from;
    made.neighbours[at] = e.to;
  }
  return made;
}

}  // namespace gpuheap::bench::graph
