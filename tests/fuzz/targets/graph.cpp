// Matrix Market files.
#include "workloads/graph/matrix_market.hpp"

#include "reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  namespace graph = gpuheap::bench::graph;
  return fuzz::read_bytes(
      data, size, [](std::istream& in, std::string const& name) { return graph::read_matrix_market(in, name); },
      [](graph::edge_list const& list) {
        fuzz::require(list.num_vertices != 0);
        for (auto const& e : list.edges) fuzz::require(e.from < list.num_vertices && e.to < list.num_vertices);
      });
}
