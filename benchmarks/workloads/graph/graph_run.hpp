// A graph on the device through one run: built, updated in batches, compared, given back. The kernels are timed here.
#pragma once

#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <string>

#include "harness/device_array.hpp"
#include "harness/kernel_timer.hpp"
#include "workloads/graph/device_csr.hpp"
#include "workloads/graph/device_plan.hpp"
#include "workloads/graph/dynamic_graph.hpp"
#include "workloads/graph/graph_ledger.hpp"

namespace gpuheap::bench::graph {

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

// One warp per vertex that has updates.
template <class Ref>
struct apply_updates {
  dynamic_graph<Ref> graph;
  update const* updates;
  simt::uint32_t const* begins;
  simt::uint8_t* results;       // of each update
  simt::uint8_t* list_results;  // of each vertex
  GPUHEAP_FN void operator()(unsigned thread) const {
    // Kernels with a warp for each vertex are launched in whole warps.
    simt::lane_mask const here = simt::all_lanes;
    unsigned const group = thread / simt::warp_lanes;
    auto const said = graph.apply(here, updates, begins[group], begins[group + 1], results);
    if (simt::lane_id() == 0) list_results[group] = said;
  }
};

template <class Ref>
struct deallocate_lists {
  dynamic_graph<Ref> graph;
  GPUHEAP_FN void operator()(unsigned v) const { graph.deallocate(graph.vertices[v]); }
};

// The heap must outlive it.
template <class Ref>
class graph_run {
 public:
  // Builds the graph: one kernel makes the lists, another fills them.
  graph_run(device_csr const& edges, Ref heap, kernel_timer& timer, stream_ref stream)
      : edges_{edges},
        stream_{stream},
        timer_{timer},
        ledger_(edges, stream),
        vertices_(edges.num_vertices),
        graph_{heap, vertices_.data()} {
    device_array<simt::uint8_t> results(edges.num_vertices);
    auto const* const offsets = edges.offsets.data();
    build_us_ = timer_.time_us([&] {
      launch(edges.num_vertices, make_lists<Ref>{graph_, offsets, results.data()}, {.stream = stream_});
      launch(static_cast<unsigned>(edges.num_edges), fill_lists{vertices_.data(), offsets, edges.sources.data(), edges.neighbours.data()},
             {.stream = stream_});
    });
    build_counts_ = ledger_.note_build(results.data());
  }

  [[nodiscard]] double build_us() const { return build_us_; }
  [[nodiscard]] memory_counts build_counts() const { return build_counts_; }

  struct applied {
    double us;
    memory_counts counts;
    std::string fault;  // "" or what is wrong
  };
  [[nodiscard]] applied apply(device_batch const& batch) {
    if (results_.size() < batch.updates.size()) {
      results_ = device_array<simt::uint8_t>(batch.updates.size());
      list_results_ = device_array<simt::uint8_t>(batch.updates.size());
    }
    double const us = timer_.time_us([&] {
      launch(batch.num_groups * simt::warp_lanes,
             apply_updates<Ref>{graph_, batch.updates.data(), batch.begins.data(), results_.data(), list_results_.data()},
             {.stream = stream_});
    });
    return {us, ledger_.count_memory(list_results_.data(), batch.num_groups),
            ledger_.note_updates(batch.updates.data(), batch.updates.size(), results_.data())};
  }

  // "" or how the device's lists differ from what they should be.
  [[nodiscard]] std::string compare() { return ledger_.compare(vertices_.data()); }

  void deallocate() {
    launch(edges_.num_vertices, deallocate_lists<Ref>{graph_}, {.stream = stream_});
    simt::synchronize(stream_);
  }

 private:
  device_csr const& edges_;
  stream_ref stream_;
  kernel_timer& timer_;
  graph_ledger ledger_;
  device_array<vertex> vertices_;
  dynamic_graph<Ref> graph_;
  device_array<simt::uint8_t> results_{0}, list_results_{0};  // of the largest batch so far
  double build_us_ = 0;
  memory_counts build_counts_;
};

}  // namespace gpuheap::bench::graph
