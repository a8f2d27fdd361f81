// A graph on the device and its like on the host, through one run: built, updated in batches, compared, given back. The kernels are timed
// here.
#pragma once

#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "harness/device_array.hpp"
#include "harness/kernel_timer.hpp"
#include "workloads/graph/csr.hpp"
#include "workloads/graph/dynamic_graph.hpp"
#include "workloads/graph/edge_list.hpp"
#include "workloads/graph/reference.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

// A graph's edges on the device, in the order of their vertices.
struct device_edges {
  device_array<simt::uint64_t> offsets;  // where each vertex's begin
  device_array<simt::uint32_t> sources;
  device_array<simt::uint32_t> neighbours;
  device_edges(csr const& arrays, stream_ref stream)
      : offsets{on_device(arrays.offsets, stream)},
        sources{on_device(arrays.sources, stream)},
        neighbours{on_device(arrays.neighbours, stream)} {}
};

// One thread per vertex.
template <class Ref>
struct make_lists {
  dynamic_graph<Ref> graph;
  simt::uint64_t const* offsets;
  simt::uint8_t* results;
  GPUHEAP_FN void operator()(unsigned v) const {
    results[v] = graph.make_list(graph.vertices[v], static_cast<simt::uint32_t>(offsets[v + 1] - offsets[v]));
  }
};

// One thread per edge.
struct fill_lists {
  vertex const* vertices;
  simt::uint64_t const* offsets;
  simt::uint32_t const* sources;
  simt::uint32_t const* neighbours;
  GPUHEAP_FN void operator()(unsigned e) const {
    vertex const& v = vertices[sources[e]];
    if (v.neighbours != nullptr) v.neighbours[e - offsets[sources[e]]] = neighbours[e];
  }
};

template <class Ref>
struct apply_updates {
  dynamic_graph<Ref> graph;
  update const* batch;
  simt::uint8_t* results;
  GPUHEAP_FN void operator()(unsigned i) const {
    results[i] = batch[i].is_delete != 0 ? graph.erase(batch[i].what) : graph.insert(batch[i].what);
  }
};

template <class Ref>
struct give_back_lists {
  dynamic_graph<Ref> graph;
  GPUHEAP_FN void operator()(unsigned v) const { graph.give_back(graph.vertices[v]); }
};

struct copy_lists {
  vertex const* vertices;
  simt::uint64_t const* offsets;
  simt::uint32_t* neighbours;
  GPUHEAP_FN void operator()(unsigned v) const {
    // Ends: once for each edge of the vertex.
    for (simt::uint32_t i = 0; i < vertices[v].degree; ++i) neighbours[offsets[v] + i] = vertices[v].neighbours[i];
  }
};

// What the kernels of a phase say about memory.
struct memory_counts {
  double allocations = 0, nulls = 0;
};
[[nodiscard]] inline memory_counts count_memory(std::vector<std::uint8_t> const& results) {
  memory_counts counts;
  for (auto const r : results) {
    counts.allocations += (r & asked_memory) != 0;
    counts.nulls += (r & got_null) != 0;
  }
  return counts;
}

// The heap must outlive it.
template <class Ref>
class graph_run {
 public:
  // Builds the graph: one kernel makes the lists, another fills them.
  graph_run(edge_list const& list, device_edges const& edges, Ref heap, kernel_timer& timer, stream_ref stream)
      : num_vertices_{list.num_vertices}, stream_{stream}, timer_{timer}, vertices_(list.num_vertices), graph_{heap, vertices_.data()} {
    device_array<std::uint8_t> results(num_vertices_);
    auto const* const offsets = edges.offsets.data();
    build_us_ = timer_.time_us([&] {
      launch(num_vertices_, make_lists<Ref>{graph_, offsets, results.data()}, {.stream = stream_});
      launch(static_cast<unsigned>(list.edges.size()), fill_lists{vertices_.data(), offsets, edges.sources.data(), edges.neighbours.data()},
             {.stream = stream_});
    });
    auto const built = results.download(stream_);
    build_counts_ = count_memory(built);
    std::vector<edge> kept;
    std::copy_if(list.edges.begin(), list.edges.end(), std::back_inserter(kept), [&](edge e) { return (built[e.from] & was_done) != 0; });
    reference_ = reference_graph(kept, kept.size() == list.edges.size());
  }

  [[nodiscard]] double build_us() const { return build_us_; }
  [[nodiscard]] memory_counts build_counts() const { return build_counts_; }

  struct applied {
    double us;
    memory_counts counts;
    std::string fault;  // "" or what is wrong
  };
  [[nodiscard]] applied apply(std::vector<update> const& batch) {
    auto const updates = on_device(batch, stream_);
    device_array<std::uint8_t> results(batch.size());
    double const us = timer_.time_us([&] {
      launch(static_cast<unsigned>(batch.size()), apply_updates<Ref>{graph_, updates.data(), results.data()}, {.stream = stream_});
    });
    auto const said = results.download(stream_);
    return {us, count_memory(said), reference_.apply(batch, said)};
  }

  // "" or how the device's graph differs from the host's.
  [[nodiscard]] std::string compare() const {
    auto const vertices = vertices_.download(stream_);
    std::vector<std::uint64_t> offsets(std::size_t{num_vertices_} + 1, 0);
    for (std::size_t v = 0; v < num_vertices_; ++v) {
      if (vertices[v].degree > vertices[v].capacity) return "the list of vertex " + std::to_string(v) + " has more edges than room";
      offsets[v + 1] = offsets[v] + vertices[v].degree;
    }
    auto const device_offsets = on_device(offsets, stream_);
    device_array<std::uint32_t> device_neighbours(offsets.back());
    launch(num_vertices_, copy_lists{vertices_.data(), device_offsets.data(), device_neighbours.data()}, {.stream = stream_});
    auto const neighbours = device_neighbours.download(stream_);
    std::vector<edge> edges;
    edges.reserve(neighbours.size());
    for (std::uint32_t v = 0; v < num_vertices_; ++v) {
      for (auto i = offsets[v]; i < offsets[v + 1]; ++i) edges.push_back({v, neighbours[i]});
    }
    return reference_.compare(edges);
  }

  void give_back() {
    launch(num_vertices_, give_back_lists<Ref>{graph_}, {.stream = stream_});
    simt::synchronize(stream_);
  }

 private:
  std::uint32_t num_vertices_;
  stream_ref stream_;
  kernel_timer& timer_;
  device_array<vertex> vertices_;
  dynamic_graph<Ref> graph_;
  reference_graph reference_{std::vector<edge>{}};
  double build_us_ = 0;
  memory_counts build_counts_;
};

}  // namespace gpuheap::bench::graph
