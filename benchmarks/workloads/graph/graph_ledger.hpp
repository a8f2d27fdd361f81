// The expected lists of a changing graph: for each vertex the number of edges, and the sum of their weights. Kept and compared on the
// device, from the edges that the host made and from the reports of the threads, never from the lists.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include <string>

#include "harness/device_array.hpp"
#include "workloads/graph/device_csr.hpp"
#include "workloads/graph/dynamic_graph.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

// The reports of a phase's kernels about memory.
struct memory_counts {
  simt::uint64_t allocations = 0, failed_requests = 0;
};
// The faults that kernels count.
struct ledger_findings {
  memory_counts memory;
  simt::uint64_t refused_inserts = 0, unexplained_inserts = 0, undone_deletes = 0;
  simt::uint64_t bad_lists = 0;
  simt::uint32_t first_bad_list = ~simt::uint32_t{0};  // vertex
};

class graph_ledger {
 public:
  graph_ledger(device_csr const& edges, stream_ref stream);

  // Notes that a new graph was built; `results` says for each vertex whether it got its list. Returns the reports about memory.
  memory_counts note_build(simt::uint8_t const* results);

  // Counts the reports about memory of `count` lists that were made or moved.
  [[nodiscard]] memory_counts count_memory(simt::uint8_t const* results, std::size_t count);

  // A batch was made, with these results. "" or what is wrong with the word of the threads: an insert
  // left undone without having been refused memory, or, while no memory was ever refused, a delete that did not find its edge.
  [[nodiscard]] std::string note_updates(update const* updates, std::size_t count, simt::uint8_t const* results);

  // "" or how the lists differ from what they should be.
  [[nodiscard]] std::string compare(vertex const* vertices);

 private:
  void forget();
  [[nodiscard]] ledger_findings found() const { return findings_.download(stream_)[0]; }

  device_csr const& edges_;
  stream_ref stream_;
  device_array<simt::uint32_t> degrees_;
  device_array<simt::uint64_t> sums_;
  device_array<ledger_findings> findings_;
  bool refused_ = false;  // some edge was left out for want of memory
};

}  // namespace gpuheap::bench::graph
