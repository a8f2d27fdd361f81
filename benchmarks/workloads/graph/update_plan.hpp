// Batches of edges to insert into and to delete from a graph, made on the host from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/random.hpp"
#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

struct update {
  edge what;
  std::uint32_t is_delete = 0;  // 1: take one such edge out; 0: put one in
};

// Which updates a batch holds. `both`: half and half, in random order.
enum class batch_kind { inserts, deletes, both };

// Follows a graph through its batches. Each deletes edges that were there before it, so that the outcome does not depend on the order
// within the batch; it inserts edges from the source of one random edge to the target of another, so that vertices grow as the graph's
// degrees suggest.
class update_plan {
 public:
  // `start` has at least one edge.
  update_plan(edge_list start, std::uint64_t seed)
      : num_vertices_{start.num_vertices}, edges_{std::move(start.edges)}, random_{seed, 0x75706474} {}

  // The next batch, of `size` updates. Fewer if the graph runs out of edges to delete.
  [[nodiscard]] std::vector<update> next(batch_kind kind, unsigned size);

 private:
  [[nodiscard]] std::uint32_t draw(std::size_t bound) { return random_.below(num_drawn_++, static_cast<std::uint32_t>(bound)); }

  std::uint32_t num_vertices_;
  std::vector<edge> edges_;  // after the batches so far
  random_sequence random_;
  std::uint64_t num_drawn_ = 0;
};

}  // namespace gpuheap::bench::graph
