// What the lists of a changing graph should hold: for each vertex how many edges, and the sum of their weights. Kept and compared on the
// device, from the edges that the host made and from what the threads say they did, never from the lists.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include <string>

#include "harness/device_array.hpp"
#include "workloads/graph/device_csr.hpp"
#include "workloads/graph/dynamic_graph.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

// What the kernels of a phase say about memory.
struct memory_counts {
  simt::uint64_t allocations = 0, failed_requests = 0;
};
// What is wrong, as kernels count it.
struct ledger_findings {
  memory_counts memory;
  simt::uint64_t refused_inserts = 0, unexplained_inserts = 0, undone_deletes = 0;
  simt::uint64_t bad_lists = 0;
  simt::uint32_t first_bad_list = ~simt::uint32_t{0};  // vertex
};

class graph_ledger {
 public:
  graph_ledger(device_csr const& edges, stream_ref stream);

  // The graph was built anew; `results` say of each vertex whether it got its list. What they say about memory.
  memory_counts note_build(simt::uint8_t const* results);

  // What `count` lists that were made or moved say about memory.
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
