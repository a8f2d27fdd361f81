// Device code: compiled by the compiler of the backend's kernels.
#include "workloads/graph/graph_ledger.hpp"

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::bench::graph {

namespace {

// relaxed, all atomics here: tallies that the next kernel or the host reads.
template <class T>
GPUHEAP_FN void add(T& tally, T more) {
  simt::atomic_ref<T>{tally}.fetch_add(more, simt::relaxed);
}

struct tally_memory {
  simt::uint8_t const* results;
  memory_counts* counts;
  GPUHEAP_FN void operator()(unsigned i) const {
    if ((results[i] & asked_memory) != 0) add(counts->allocations, simt::uint64_t{1});
    if ((results[i] & got_null) != 0) add(counts->failed_requests, simt::uint64_t{1});
  }
};

struct note_lists {
  simt::uint8_t const* results;
  simt::uint64_t const* offsets;
  simt::uint64_t const* sums_of_edges;
  simt::uint32_t* degrees;
  simt::uint64_t* sums;
  GPUHEAP_FN void operator()(unsigned v) const {
    bool const done = (results[v] & was_done) != 0;
    degrees[v] = done ? static_cast<simt::uint32_t>(offsets[v + 1] - offsets[v]) : 0;
    sums[v] = done ? sums_of_edges[v] : 0;
  }
};

struct note_each_update {
  update const* updates;
  simt::uint8_t const* results;
  simt::uint32_t* degrees;
  simt::uint64_t* sums;
  ledger_findings* word;
  GPUHEAP_FN void operator()(unsigned i) const {
    update const& u = updates[i];
    bool const is_delete = u.is_delete != 0;
    if ((results[i] & was_done) != 0) {
      // Unsigned, so that a subtraction is the addition of what wraps round.
      add(degrees[u.what.from], is_delete ? ~simt::uint32_t{0} : simt::uint32_t{1});
      add(sums[u.what.from], is_delete ? simt::uint64_t{0} - weight_of(u.what.to) : weight_of(u.what.to));
    } else if (is_delete) {
      add(word->undone_deletes, simt::uint64_t{1});
    } else {
      add((results[i] & got_null) != 0 ? word->refused_inserts : word->unexplained_inserts, simt::uint64_t{1});
    }
  }
};

// A warp for each vertex.
struct compare_lists {
  vertex const* vertices;
  simt::uint32_t const* degrees;
  simt::uint64_t const* sums;
  ledger_findings* found;
  GPUHEAP_FN void operator()(unsigned thread) const {
    simt::lane_mask const here = simt::all_lanes;
    unsigned const lane = simt::lane_id();
    unsigned const v = thread / simt::warp_lanes;
    vertex const list = vertices[v];
    bool const fits = list.degree <= list.capacity && (list.capacity == 0) == (list.neighbours == nullptr);
    simt::uint64_t sum = 0;
    if (fits) {
      for (simt::uint32_t i = lane; i < list.degree; i += simt::warp_lanes) sum += weight_of(list.neighbours[i]);
    }
    for (unsigned distance = simt::warp_lanes / 2; distance != 0; distance /= 2) sum += simt::shuffle_xor(here, sum, distance);
    if (lane != 0 || (fits && list.degree == degrees[v] && sum == sums[v])) return;
    add(found->bad_lists, simt::uint64_t{1});
    simt::atomic_ref<simt::uint32_t>{found->first_bad_list}.fetch_min(v, simt::relaxed);
  }
};

}  // namespace

graph_ledger::graph_ledger(device_csr const& edges, stream_ref stream)
    : edges_{edges}, stream_{stream}, degrees_(edges.num_vertices), sums_(edges.num_vertices), findings_(1) {}

void graph_ledger::forget() {
  static constexpr ledger_findings none{};
  simt::copy(findings_.data(), &none, sizeof none, stream_);
}

memory_counts graph_ledger::count_memory(simt::uint8_t const* results, std::size_t count) {
  forget();
  launch(static_cast<unsigned>(count), tally_memory{results, &findings_.data()->memory}, {.stream = stream_});
  return found().memory;
}

memory_counts graph_ledger::note_build(simt::uint8_t const* results) {
  launch(edges_.num_vertices, note_lists{results, edges_.offsets.data(), edges_.sums.data(), degrees_.data(), sums_.data()},
         {.stream = stream_});
  auto const counts = count_memory(results, edges_.num_vertices);
  refused_ = counts.failed_requests != 0;
  return counts;
}

std::string graph_ledger::note_updates(update const* updates, std::size_t count, simt::uint8_t const* results) {
  forget();
  launch(static_cast<unsigned>(count), note_each_update{updates, results, degrees_.data(), sums_.data(), findings_.data()},
         {.stream = stream_});
  auto const said = found();
  if (said.unexplained_inserts != 0)
    return std::to_string(said.unexplained_inserts) + " edges were not inserted, although no memory was refused";
  refused_ = refused_ || said.refused_inserts != 0;
  if (said.undone_deletes != 0 && !refused_) return std::to_string(said.undone_deletes) + " edges were not found to delete";
  return "";
}

std::string graph_ledger::compare(vertex const* vertices) {
  forget();
  launch(edges_.num_vertices * simt::warp_lanes, compare_lists{vertices, degrees_.data(), sums_.data(), findings_.data()},
         {.stream = stream_});
  auto const said = found();
  if (said.bad_lists == 0) return "";
  std::string const lists = said.bad_lists == 1 ? "1 list has" : std::to_string(said.bad_lists) + " lists have";
  return lists + " wrong contents: the first is that of vertex " + std::to_string(said.first_bad_list);
}

}  // namespace gpuheap::bench::graph
