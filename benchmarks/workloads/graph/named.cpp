#include "workloads/graph/named.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/error.hpp"
#include "harness/near_names.hpp"

namespace gpuheap::bench::graph {

namespace {

constexpr std::uint64_t stream = 0x726d6174;

// A quadrant's probability is the product of its half's: `share` for the upper or the left one, at each level.
void set_quadrants(generated_graph& graph, double share) {
  auto const of_65536 = [](double probability) { return static_cast<std::uint32_t>(std::lround(probability * 65536)); };
  graph.upper_left = of_65536(share * share);
  graph.upper_right = graph.lower_left = of_65536(share * (1 - share));
}

}  // namespace

generated_graph make_rmat(unsigned scale, unsigned edge_factor, std::uint64_t seed) {
  return {.num_vertices = std::uint32_t{1} << scale,
          .num_edges = std::uint64_t{edge_factor} << scale,
          .shape = graph_shape::skewed,
          .scale = scale,
          .upper_left = 37355,
          .upper_right = 12452,
          .lower_left = 12452,
          .random = random_sequence{seed, stream}};
}

std::vector<named_graph> const& named_graphs() {
  static std::vector<named_graph> const graphs{
      {"like_1138_bus", "HB", graph_shape::path, 1'138, 2'596, 0},
      {"like_email", "Arenas", graph_shape::skewed, 1'133, 5'451, 71},
      {"like_fe_body", "DIMACS10", graph_shape::mesh, 45'087, 163'734, 0},
      {"like_kron_g500-logn16", "DIMACS10", graph_shape::skewed, 65'536, 2'456'071, 17'997},
      {"like_preferentialAttachment", "DIMACS10", graph_shape::skewed, 100'000, 499'985, 983},
      {"like_luxembourg_osm", "DIMACS10", graph_shape::path, 114'599, 119'666, 0},
      {"like_144", "DIMACS10", graph_shape::mesh, 144'649, 1'074'393, 0},
      {"like_caidaRouterLevel", "DIMACS10", graph_shape::skewed, 192'244, 609'066, 1'071},
      {"like_coAuthorsCiteseer", "DIMACS10", graph_shape::skewed, 227'320, 814'134, 1'372},
      {"like_coPapersDBLP", "DIMACS10", graph_shape::skewed, 540'486, 15'245'729, 3'299},
      {"like_delaunay_n20", "DIMACS10", graph_shape::mesh, 1'048'576, 3'145'686, 0},
      {"like_rgg_n_2_20_s0", "DIMACS10", graph_shape::near, 1'048'576, 6'891'620, 0},
      {"like_orkut", "SNAP", graph_shape::skewed, 3'072'626, 117'185'083, 33'313},
  };
  return graphs;
}

generated_graph make_named(std::string const& name, std::uint64_t seed) {
  auto const& graphs = named_graphs();
  auto const found = std::find_if(graphs.begin(), graphs.end(), [&](named_graph const& g) { return g.name == name; });
  if (found == graphs.end()) {
    std::vector<std::string> known;
    for (auto const& g : graphs) known.emplace_back(g.name);
    throw usage_error("graph=" + name + ": expected a file, *.mtx, or the name of a generated graph" + suggestion(name, known));
  }
  generated_graph made{.num_vertices = found->num_vertices,
                       .num_edges = found->num_edges,
                       .shape = found->shape,
                       .both_directions = true,
                       .random = random_sequence{seed, stream}};
  if (made.shape == graph_shape::skewed) {
    made.scale = static_cast<unsigned>(std::bit_width(made.num_vertices - 1));
    // The vertex with the most edges has share^scale of all directed ones.
    double const most = static_cast<double>(found->largest_degree) / static_cast<double>(made.num_directed());
    set_quadrants(made, std::pow(most, 1.0 / std::log2(static_cast<double>(made.num_vertices))));
  }
  return made;
}

}  // namespace gpuheap::bench::graph
