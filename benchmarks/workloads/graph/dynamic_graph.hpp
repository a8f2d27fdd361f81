// A graph that changes on the device: one adjacency list per vertex, an array from the heap that doubles when it is full, halves when three
// quarters of it are empty, and is given back with its last edge. Any number of threads insert and delete at once; a vertex is locked while
// its list changes.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

#include "workloads/graph/reference.hpp"
#include "workloads/graph/update_plan.hpp"

namespace gpuheap::bench::graph {

struct vertex {
  simt::uint32_t lock;      // 1: some thread owns the rest
  simt::uint32_t degree;    // edges in the list; degree <= capacity
  simt::uint32_t capacity;  // 0 exactly if neighbours is nullptr
  simt::uint32_t* neighbours;
};

inline constexpr simt::uint32_t smallest_capacity = 4;

// What kernels get by value. `Ref` is a heap_ref.
template <class Ref>
struct dynamic_graph {
  Ref heap;
  vertex* vertices;

  // Puts the edge in. Undone only if the list was full and no memory could be had. Any thread; a bit set of update_result.
  GPUHEAP_FN simt::uint8_t insert(edge e) const {
    return locked(vertices[e.from], [&](vertex& v) -> simt::uint8_t {
      simt::uint8_t result = 0;
      if (v.degree == v.capacity) result = move_to(v, v.capacity == 0 ? smallest_capacity : 2 * v.capacity);
      if (v.degree == v.capacity) return result;
      v.neighbours[v.degree++] = e.to;
      return result | was_done;
    });
  }

  // Takes one such edge out. Undone if there is none.
  GPUHEAP_FN simt::uint8_t erase(edge e) const {
    return locked(vertices[e.from], [&](vertex& v) -> simt::uint8_t {
      simt::uint32_t at = 0;
      // Ends: once for each edge of the vertex.
      while (at < v.degree && v.neighbours[at] != e.to) ++at;
      if (at == v.degree) return 0;
      v.neighbours[at] = v.neighbours[--v.degree];
      if (v.degree == 0) {
        give_back(v);
        return was_done;
      }
      simt::uint8_t const shrunk =
          v.capacity > smallest_capacity && v.degree <= v.capacity / 4 ? move_to(v, v.capacity / 2) : simt::uint8_t{0};
      return shrunk | was_done;
    });
  }

  // Gives the vertex its first list, with room for `count` edges that the caller then writes. One thread per vertex, no other kernel on the
  // graph at the time. Undone only if no memory could be had.
  GPUHEAP_FN simt::uint8_t make_list(vertex& v, simt::uint32_t count) const {
    v = {};
    if (count == 0) return was_done;
    simt::uint32_t capacity = smallest_capacity;
    // Ends: each pass doubles; count < 2^31.
    while (capacity < count) capacity *= 2;
    simt::uint8_t const result = move_to(v, capacity);
    if (v.capacity == 0) return result;
    v.degree = count;
    return result | was_done;
  }

  // The vertex gets rid of its edges. Its owner, or one thread per vertex.
  GPUHEAP_FN void give_back(vertex& v) const {
    heap.free(v.neighbours);
    v.neighbours = nullptr;
    v.degree = v.capacity = 0;
  }

 private:
  // Moves the list to one of another capacity, which must hold it. Keeps the old one where no memory can be had.
  GPUHEAP_FN simt::uint8_t move_to(vertex& v, simt::uint32_t capacity) const {
    auto const moved = static_cast<simt::uint32_t*>(heap.malloc(simt::size_t{capacity} * sizeof(simt::uint32_t)));
    if (moved == nullptr) return asked_memory | got_null;
    // Ends: once for each edge of the vertex.
    for (simt::uint32_t i = 0; i < v.degree; ++i) moved[i] = v.neighbours[i];
    heap.free(v.neighbours);
    v.neighbours = moved;
    v.capacity = capacity;
    return asked_memory;
  }

  // Runs `change` as the vertex's owner and returns what it returned.
  template <class Change>
  GPUHEAP_FN static simt::uint8_t locked(vertex& v, Change change) {
    simt::atomic_ref<simt::uint32_t> const lock{v.lock};
    simt::back_off back_off;
    simt::uint8_t result = 0;
    bool done = false;
    // Ends: once the owners before this thread are done. An owner waits for nobody inside `change`, and gives the lock back within the
    // branch that it alone took: it needs no other lane of its warp to leave the loop first. Not fair.
    while (!done) {
      // acquire: pairs with the store below; what the last owner wrote is seen. The load before it, relaxed, only saves traffic.
      if (lock.load(simt::relaxed) == 0 && lock.exchange(1, simt::acquire) == 0) {
        result = change(v);
        // release: pairs with the exchange above; the list is as this owner left it before the next one looks.
        lock.store(0, simt::release);
        done = true;
      } else {
        back_off.wait();
      }
    }
    return result;
  }
};

}  // namespace gpuheap::bench::graph
