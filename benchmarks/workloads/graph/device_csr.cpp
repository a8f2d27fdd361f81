// Device code: compiled by the compiler of the backend's kernels.
#include "workloads/graph/device_csr.hpp"

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>

namespace gpuheap::bench::graph {

namespace {

// The edges of a list, with the interface of a generated graph's edges.
struct listed_edges {
  edge const* edges;
  simt::uint64_t count;
  [[nodiscard]] GPUHEAP_HD simt::uint64_t num_drawn() const { return count; }
  [[nodiscard]] GPUHEAP_HD bool is_double(simt::uint64_t) const { return false; }
  [[nodiscard]] GPUHEAP_HD edge at(simt::uint64_t k) const { return edges[k]; }
};

// relaxed, all atomics here: the next kernel reads what they count.
template <class Edges>
struct count_degrees {
  Edges edges;
  simt::uint32_t* degrees;
  GPUHEAP_FN void operator()(unsigned k) const {
    edge const e = edges.at(k);
    simt::atomic_ref<simt::uint32_t>{degrees[e.from]}.fetch_add(1, simt::relaxed);
    if (edges.is_double(k)) simt::atomic_ref<simt::uint32_t>{degrees[e.to]}.fetch_add(1, simt::relaxed);
  }
};

template <class Edges>
struct place_edges {
  Edges edges;
  simt::uint64_t* next;  // of each vertex: where its next neighbour goes
  simt::uint32_t* sources;
  simt::uint32_t* neighbours;
  simt::uint64_t* sums;
  GPUHEAP_FN void operator()(unsigned k) const {
    edge const e = edges.at(k);
    place(e.from, e.to);
    if (edges.is_double(k)) place(e.to, e.from);
  }
  GPUHEAP_FN void place(simt::uint32_t from, simt::uint32_t to) const {
    auto const at = simt::atomic_ref<simt::uint64_t>{next[from]}.fetch_add(1, simt::relaxed);
    sources[at] = from;
    neighbours[at] = to;
    simt::atomic_ref<simt::uint64_t>{sums[from]}.fetch_add(weight_of(to), simt::relaxed);
  }
};

}  // namespace

template <class Edges>
void device_csr::fill(Edges const& edges, stream_ref stream) {
  device_array<simt::uint32_t> counted(num_vertices);
  counted.zero(stream);
  auto const num_drawn = static_cast<unsigned>(edges.num_drawn());
  launch(num_drawn, count_degrees<Edges>{edges, counted.data()}, {.stream = stream});
  degrees = counted.download(stream);
  std::vector<simt::uint64_t> begin(std::size_t{num_vertices} + 1, 0);
  for (std::size_t v = 0; v < num_vertices; ++v) begin[v + 1] = begin[v] + degrees[v];
  offsets.upload(begin, stream);
  auto const next = on_device(begin, stream);
  sums.zero(stream);
  launch(num_drawn, place_edges<Edges>{edges, next.data(), sources.data(), neighbours.data(), sums.data()}, {.stream = stream});
  simt::synchronize(stream);
}

device_csr::device_csr(generated_graph const& graph, stream_ref stream)
    : num_vertices{graph.num_vertices},
      num_edges{graph.num_directed()},
      offsets(std::size_t{num_vertices} + 1),
      sources(num_edges),
      neighbours(num_edges),
      sums(num_vertices) {
  fill(graph, stream);
}

device_csr::device_csr(edge_list const& list, stream_ref stream)
    : num_vertices{list.num_vertices},
      num_edges{list.edges.size()},
      offsets(std::size_t{num_vertices} + 1),
      sources(num_edges),
      neighbours(num_edges),
      sums(num_vertices) {
  auto const edges = on_device(list.edges, stream);
  fill(listed_edges{edges.data(), num_edges}, stream);
}

}  // namespace gpuheap::bench::graph
