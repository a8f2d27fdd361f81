// Generated graphs with the skewed degrees of real ones: R-MAT (Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining",
// SDM 2004), with the quadrant probabilities of Graph500: 0.57, 0.19, 0.19, 0.05.
#pragma once

#include <cstdint>

#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

struct rmat_parameters {
  unsigned scale = 14;        // log2 of the number of vertices, 1..31
  unsigned edge_factor = 16;  // edges per vertex
  std::uint64_t seed = 1;
};

// Exactly edge_factor << scale edges, the same ones for the same parameters on every machine. Vertices are renumbered by a fixed bijection,
// so that those of high degree are spread over the numbers.
[[nodiscard]] edge_list make_rmat(rmat_parameters const& parameters);

}  // namespace gpuheap::bench::graph
