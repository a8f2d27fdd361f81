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
// within the batch. Sources are drawn evenly from the vertices (those with edges, for deletes), so that the threads of a batch seldom meet
// at one list.
class update_plan {
 public:
  update_plan(edge_list const& start, std::uint64_t seed);

  // The next batch, of `size` updates. Fewer if the graph runs out of edges to delete.
  [[nodiscard]] std::vector<update> next(batch_kind kind, unsigned size);

 private:
  [[nodiscard]] std::uint32_t draw(std::size_t bound) { return random_.below(num_drawn_++, static_cast<std::uint32_t>(bound)); }
  void add(edge e);
  [[nodiscard]] edge take_any();

  std::vector<std::vector<std::uint32_t>> neighbours_;  // of each vertex, after the batches so far
  std::vector<std::uint32_t> with_edges_;               // the vertices whose list is not empty, in any order
  std::vector<std::uint32_t> position_;                 // of each such vertex in with_edges_
  random_sequence random_;
  std::uint64_t num_drawn_ = 0;
};

}  // namespace gpuheap::bench::graph
