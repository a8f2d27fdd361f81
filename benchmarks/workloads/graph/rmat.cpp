#include "workloads/graph/rmat.hpp"

#include "harness/random.hpp"

namespace gpuheap::bench::graph {

namespace {

// A bijection of 0 .. 2^scale - 1: both steps can be undone.
std::uint32_t renumber(std::uint32_t vertex, unsigned scale) {
  std::uint32_t const mask = (std::uint32_t{1} << scale) - 1;
  // Ends: after two passes.
  for (int pass = 0; pass < 2; ++pass) {
    vertex = (vertex * 0x9e3779b1u) & mask;  // odd, hence invertible modulo 2^scale
    vertex ^= vertex >> ((scale + 1) / 2);   // the high half stays, and gives back the low one
  }
  return vertex;
}

}  // namespace

edge_list make_rmat(rmat_parameters const& parameters) {
  // Of 65536, so that no floating-point rounding is involved: upper left, then upper right, then lower left.
  constexpr unsigned upper_left = 37355, upper_right = 12452, lower_left = 12452;
  random_sequence const random{parameters.seed, /*stream=*/0x726d6174};
  std::uint64_t const num_edges = std::uint64_t{parameters.edge_factor} << parameters.scale;

  edge_list list{std::uint32_t{1} << parameters.scale, {}};
  list.edges.reserve(num_edges);
  for (std::uint64_t e = 0; e < num_edges; ++e) {
    edge made;
    std::uint64_t bits = 0;
    for (unsigned level = 0; level < parameters.scale; ++level) {
      // 16 random bits for each level, four levels from each number; 8 numbers are enough for 32 levels.
      if (level % 4 == 0) bits = random.bits(e * 8 + level / 4);
      unsigned const draw = bits & 0xffff;
      bits >>= 16;
      bool const lower = draw >= upper_left + upper_right;
      bool const right = lower ? draw >= upper_left + upper_right + lower_left : draw >= upper_left;
      made.from = made.from << 1 | static_cast<std::uint32_t>(lower);
      made.to = made.to << 1 | static_cast<std::uint32_t>(right);
    }
    list.edges.push_back({renumber(made.from, parameters.scale), renumber(made.to, parameters.scale)});
  }
  return list;
}

}  // namespace gpuheap::bench::graph
