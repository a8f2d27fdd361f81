// The same graph kept on the host, to compare the device's with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/graph/edge_list.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

// What one thread of a kernel reports about the vertex it built or the update it made: a set of these bits.
enum update_result : std::uint8_t {
  was_done = 1,      // the graph is changed as asked
  asked_memory = 2,  // malloc was called
  got_null = 4,      // and returned nullptr
};

// A multiset of edges.
class reference_graph {
 public:
  // `complete`: false if the device already had to leave edges of this graph out for want of memory, so that later deletes may not find
  // theirs.
  explicit reference_graph(std::vector<edge> const& edges, bool complete = true);

  // Applies the updates that the device says it has done. Returns "" or what is wrong with its word: an insert left undone without having
  // been refused memory, a delete of an edge that is not there, or, while no memory was ever refused, a delete left undone.
  [[nodiscard]] std::string apply(std::span<update const> batch, std::span<std::uint8_t const> results);

  // "" if `edges` are the same multiset; otherwise the first edge that is missing or too many.
  [[nodiscard]] std::string compare(std::vector<edge> const& edges) const;

 private:
  std::vector<std::uint64_t> edges_;  // from in the high half, sorted
  bool refused_;                      // some edge was left out for want of memory
};

}  // namespace gpuheap::bench::graph
