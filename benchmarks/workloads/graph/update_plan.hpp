// Batches of edges to insert into and to delete from a graph, made on the host from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

struct update {
  edge what;
  std::uint32_t is_delete = 0;  // 1: take one such edge out; 0: put one in
};

// The updates of one kernel, those of each vertex side by side, deletes before inserts. Vertex group g has updates begins[g] ..
// begins[g + 1].
struct update_batch {
  std::vector<update> updates;
  std::vector<std::uint32_t> begins;
  [[nodiscard]] std::uint32_t num_groups() const { return static_cast<std::uint32_t>(begins.size() - 1); }
};

struct plan_parameters {
  std::uint32_t num_vertices = 0;
  unsigned num_batches = 1;
  unsigned size = 1;  // updates of a batch
  // Vertices that the updates of a batch belong to, side by side, somewhere else in each batch; 0: all. Ends of edges are drawn evenly.
  std::uint32_t range = 0;
  std::uint32_t first = any_vertex;  // of the range in every batch
  // false: a batch inserts. true: one half of it deletes what the batch before inserted, the other inserts.
  bool mixed = false;
  std::uint64_t seed = 1;

  static constexpr std::uint32_t any_vertex = ~std::uint32_t{0};
  friend bool operator==(plan_parameters const&, plan_parameters const&) = default;
};

// All batches of a plan, made by as many host threads as there are. The same for the same parameters on every machine. Every delete's edge
// is there when its batch begins. A mixed plan begins with one batch more, of inserts, for the first of the others to delete.
[[nodiscard]] std::vector<update_batch> make_plan(plan_parameters const& parameters);

}  // namespace gpuheap::bench::graph
