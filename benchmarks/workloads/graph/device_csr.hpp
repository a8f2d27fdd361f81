// A graph's edges as arrays on the device: the neighbours of all vertices one after another, and the index of each vertex's first
// neighbour. The arrays are made on the device, so that hundreds of millions of edges take no longer than a case.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include <cstdint>
#include <vector>

#include "harness/device_array.hpp"
#include "workloads/graph/edge_list.hpp"
#include "workloads/graph/generated.hpp"

namespace gpuheap::bench::graph {

// A neighbour's part of the sum that stands for a list: lists with the same length and sum are equal (except for one pair in 2^64).
[[nodiscard]] GPUHEAP_HD inline simt::uint64_t weight_of(simt::uint32_t neighbour) { return mix_bits(neighbour + simt::uint64_t{1}); }

struct device_csr {
  device_csr(generated_graph const& graph, stream_ref stream);
  device_csr(edge_list const& list, stream_ref stream);

  simt::uint32_t num_vertices;
  simt::uint64_t num_edges;  // directed
  std::vector<simt::uint32_t> degrees;
  device_array<simt::uint64_t> offsets;     // num_vertices + 1, ascending from 0
  device_array<simt::uint32_t> sources;     // of each edge: the vertex that it belongs to
  device_array<simt::uint32_t> neighbours;  // of vertex v: offsets[v] .. offsets[v + 1], in any order
  device_array<simt::uint64_t> sums;        // of each vertex: of its neighbours' weights

 private:
  template <class Edges>
  void fill(Edges const& edges, stream_ref stream);
};

}  // namespace gpuheap::bench::graph
