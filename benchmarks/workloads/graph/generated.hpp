// Graphs made from a seed: edge k of one can be had anywhere, on the device or the host, without those before it.
#pragma once

#include <cstdint>

#include "harness/random.hpp"
#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

// The numbers of edges of the vertices decide the cost of a graph's lists; the vertices to which the edges lead do not. So a shape stands
// for a class of graphs.
enum class graph_shape : std::uint32_t {
  skewed,  // few vertices with very many edges: R-MAT (Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining", SDM 2004)
  mesh,    // every vertex has nearly the mean: an edge to a near vertex begins at each in turn
  near,    // as many edges as chance gives: both ends lie near each other, and anywhere
  path,    // every vertex has a next one; what edges are left are those of a mesh
};

struct generated_graph {
  std::uint32_t num_vertices = 0;
  std::uint64_t num_edges = 0;  // drawn; each stands for both directions if `both_directions`
  std::uint64_t hub_edges = 0;  // and of vertex 0 alone, in one direction
  graph_shape shape = graph_shape::skewed;
  bool both_directions = false;
  unsigned scale = 0;  // skewed: 2^scale >= num_vertices
  // Skewed: how often an edge goes into each quadrant but the last, of 65536, so that no floating-point rounding is involved.
  std::uint32_t upper_left = 0, upper_right = 0, lower_left = 0;
  random_sequence random{1};

  [[nodiscard]] GPUHEAP_HD std::uint64_t num_drawn() const { return num_edges + hub_edges; }
  // Whether drawn edge k is one in both directions.
  [[nodiscard]] GPUHEAP_HD bool is_double(std::uint64_t k) const { return both_directions && k < num_edges; }
  [[nodiscard]] std::uint64_t num_directed() const { return num_edges * (both_directions ? 2 : 1) + hub_edges; }

  // Drawn edge k. Edges may repeat and may be loops.
  [[nodiscard]] GPUHEAP_HD edge at(std::uint64_t k) const {
    if (k >= num_edges) return {0, random.below(8 * k, num_vertices)};
    switch (shape) {
      case graph_shape::skewed:
        return skewed_edge(k);
      case graph_shape::near:
        return near_edge(k, random.below(8 * k + 1, num_vertices));
      case graph_shape::path:
        if (k < num_vertices) return {static_cast<std::uint32_t>(k), wrapped(k + 1)};
        return near_edge(k, random.below(8 * k + 1, num_vertices));
      case graph_shape::mesh:
        break;
    }
    return near_edge(k, static_cast<std::uint32_t>(k % num_vertices));
  }

 private:
  static constexpr std::uint32_t near_by = 64;

  [[nodiscard]] GPUHEAP_HD std::uint32_t wrapped(std::uint64_t v) const {
    return static_cast<std::uint32_t>(v < num_vertices ? v : v % num_vertices);
  }
  [[nodiscard]] GPUHEAP_HD edge near_edge(std::uint64_t k, std::uint32_t from) const {
    return {from, wrapped(std::uint64_t{from} + 1 + random.below(8 * k, near_by))};
  }

  // A bijection of 0 .. 2^scale - 1, so that vertices of high degree are spread over the numbers. Both steps can be undone.
  [[nodiscard]] GPUHEAP_HD std::uint32_t renumber(std::uint32_t vertex) const {
    std::uint32_t const mask = (std::uint32_t{1} << scale) - 1;
    for (int pass = 0; pass < 2; ++pass) {
      vertex = (vertex * 0x9e3779b1u) & mask;  // odd, hence invertible modulo 2^scale
      vertex ^= vertex >> ((scale + 1) / 2);   // the high half stays, and gives back the low one
    }
    return static_cast<std::uint32_t>((std::uint64_t{vertex} * num_vertices) >> scale);
  }
  [[nodiscard]] GPUHEAP_HD edge skewed_edge(std::uint64_t k) const {
    edge made;
    std::uint64_t bits = 0;
    for (unsigned level = 0; level < scale; ++level) {
      // 16 random bits for each level, four levels from each number; 8 numbers are enough for 32 levels.
      if (level % 4 == 0) bits = random.bits(k * 8 + level / 4);
      auto const draw = static_cast<std::uint32_t>(bits & 0xffff);
      bits >>= 16;
      bool const lower = draw >= upper_left + upper_right;
      bool const right = lower ? draw >= upper_left + upper_right + lower_left : draw >= upper_left;
      made.from = made.from << 1 | static_cast<std::uint32_t>(lower);
      made.to = made.to << 1 | static_cast<std::uint32_t>(right);
    }
    return {renumber(made.from), renumber(made.to)};
  }
};

// R-MAT of 2^scale vertices (scale 1..31) and edge_factor << scale directed edges, with the quadrant probabilities of Graph500: 0.57, 0.19,
// 0.19, 0.05. The same edges for the same parameters on every machine.
[[nodiscard]] generated_graph make_rmat(unsigned scale, unsigned edge_factor, std::uint64_t seed);

}  // namespace gpuheap::bench::graph
