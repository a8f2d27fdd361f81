// A graph that changes on the device: one adjacency list per vertex, an array from the heap whose capacity is the power of two at or above
// the number of its edges. A list that crosses a power of two moves to a new array, and the old one is given back; one without edges has
// none. All updates of a vertex are made by one warp.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

struct vertex {
  simt::uint32_t degree;    // edges in the list; degree <= capacity
  simt::uint32_t capacity;  // 0 exactly if neighbours is nullptr
  simt::uint32_t* neighbours;
};

// The report of a kernel about a list that it made or moved, or about an update: a set of these bits.
enum list_result : simt::uint8_t {
  was_done = 1,      // the graph is changed as asked
  asked_memory = 2,  // malloc was called
  got_null = 4,      // and returned nullptr
};

inline constexpr simt::uint32_t smallest_capacity = 4;
[[nodiscard]] GPUHEAP_HD inline simt::uint32_t capacity_for(simt::uint32_t degree) {
  if (degree == 0) return 0;
  return degree <= smallest_capacity ? smallest_capacity : simt::uint32_t{2} << simt::highest_bit(degree - 1);
}

// The view that kernels get by value. `Ref` is a heap_ref.
template <class Ref>
struct dynamic_graph {
  Ref heap;
  vertex* vertices;

  // Gives the vertex its first list, with room for `count` edges that another kernel then writes. One thread per vertex. Undone only if no
  // memory could be had.
  GPUHEAP_FN simt::uint8_t make_list(vertex& v, simt::uint32_t count) const {
    v = {0, 0, nullptr};
    if (count == 0) return was_done;
    v.neighbours = ask(capacity_for(count));
    if (v.neighbours == nullptr) return asked_memory | got_null;
    v.capacity = capacity_for(count);
    v.degree = count;
    return asked_memory | was_done;
  }

  // Makes updates first .. last - 1, which all belong to one vertex, deletes before inserts. `here`: the calling warp, whole. Answers for
  // the list; each update's own answer goes to results[]. A delete is undone if there is no such edge, an insert if the list is full and no
  // memory could be had.
  GPUHEAP_FN simt::uint8_t apply(simt::lane_mask here, update const* updates, simt::uint32_t first, simt::uint32_t last,
                                 simt::uint8_t* results) const {
    unsigned const lane = simt::lane_id();
    vertex& home = vertices[updates[first].what.from];
    vertex v = home;
    simt::sync_warp(here);  // every lane has read it before lane 0 writes it below
    for (; first < last && updates[first].is_delete != 0; ++first) {
      bool const done = erase(here, v, updates[first].what.to);
      if (lane == 0) results[first] = done ? was_done : 0;
    }
    simt::uint8_t const moved = move_to(here, v, capacity_for(v.degree + (last - first)));
    simt::uint32_t const room = v.capacity - v.degree;
    for (simt::uint32_t i = lane; i < last - first; i += simt::warp_lanes) {
      if (i < room) v.neighbours[v.degree + i] = updates[first + i].what.to;
      results[first + i] = i < room ? was_done : got_null;
    }
    v.degree += room < last - first ? room : last - first;
    if (lane == 0) home = v;
    return moved;
  }

  // The vertex gets rid of its edges. One thread per vertex.
  GPUHEAP_FN void deallocate(vertex& v) const {
    heap.free(v.neighbours);
    v = {0, 0, nullptr};
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint32_t* ask(simt::uint32_t capacity) const {
    return static_cast<simt::uint32_t*>(heap.malloc(simt::size_t{capacity} * sizeof(simt::uint32_t)));
  }

  // Takes one edge to `target` out of the list: the last one takes its place. False if there is none.
  GPUHEAP_FN static bool erase(simt::lane_mask here, vertex& v, simt::uint32_t target) {
    unsigned const lane = simt::lane_id();
    for (simt::uint32_t begin = 0; begin < v.degree; begin += simt::warp_lanes) {
      simt::uint32_t const i = begin + lane;
      simt::lane_mask const hits = simt::ballot(here, i < v.degree && v.neighbours[i] == target);
      if (hits == 0) continue;
      --v.degree;
      if (lane == 0) v.neighbours[begin + simt::lowest_bit(hits)] = v.neighbours[v.degree];
      // The other lanes read the list only after lane 0 wrote it.
      simt::sync_warp(here);
      return true;
    }
    return false;
  }

  // Gives the list another capacity, if it has not got it. Keeps the old one where no memory can be had.
  GPUHEAP_FN simt::uint8_t move_to(simt::lane_mask here, vertex& v, simt::uint32_t capacity) const {
    if (capacity == v.capacity) return 0;
    unsigned const lane = simt::lane_id();
    simt::uint32_t* moved = nullptr;
    if (capacity != 0) {
      if (lane == 0) moved = ask(capacity);
      moved = simt::shuffle(here, moved, 0);
      if (moved == nullptr) return asked_memory | got_null;
      for (simt::uint32_t i = lane; i < v.degree; i += simt::warp_lanes) moved[i] = v.neighbours[i];
      // The old list is read before it is given back.
      simt::sync_warp(here);
    }
    if (lane == 0) heap.free(v.neighbours);
    v.neighbours = moved;
    v.capacity = capacity;
    return capacity != 0 ? asked_memory : 0;
  }
};

}  // namespace gpuheap::bench::graph
