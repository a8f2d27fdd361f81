// A kd-tree over triangles that is built on the device, with nodes and lists of references that come from a heap: the workload of Vinkler
// and Havran (2014, section 5, [DS]). Level by level, a warp for each node:
//
//   count     for each of 32 planes on each axis, how many triangles reach to its left and to its right
//   choose    the plane with the least cost by the surface area heuristic, or none: then the node stays a leaf
//   allocate  two lists and two nodes, one lane asking; the node's own list is freed once its references have been handed on
//   hand on   each reference to the child that its triangle reaches into, or to both
//
// Nodes of many references are counted and handed on by many warps, in kernels of their own: large_nodes below. queue_build.hpp has the
// other form, in which one kernel of persistent warps does all this, from a queue of work.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

#include "workloads/scene/geometry.hpp"

namespace gpuheap::bench::kdtree {

using scene::box;
using simt::uint32_t;

inline constexpr uint32_t no_large = ~uint32_t{0};

struct node {
  box bounds;
  uint32_t num_references;
  uint32_t depth;
  uint32_t large;        // its place among the large nodes of its level, or no_large
  uint32_t* references;  // triangles; nullptr if there are none and once they have been handed on
  node* children[2];     // nullptr, both: a leaf
};
static_assert(sizeof(node) == 64);

// Costs of the heuristic: of passing a node, and of a triangle.
inline constexpr float node_cost = 3, triangle_cost = 2;
inline constexpr uint32_t most_in_leaf = 2;   // nodes with fewer references are not split
inline constexpr uint32_t large_from = 1024;  // references of a large node, and of a unit of work on one
inline constexpr uint32_t num_planes = simt::warp_lanes;

// The triangles of a node beside its planes: `left` reach to the left of this lane's plane, `right` beyond it.
struct plane_counts {
  uint32_t left[3] = {}, right[3] = {};
};

struct large_node {
  node* which;
  uint32_t* list;  // its references, which are freed when all have been handed on; nullptr: it was not split
  int axis;        // of the plane that splits it
  float plane;
  uint32_t filled[2];  // of the children's lists
  uint32_t done;       // units of work, where a queue has them, as the next one
  uint32_t children;   // their place among the nodes
};
struct unit {
  uint32_t large, first;  // references first .. first + large_from - 1 of it
};

// The state of a build: counters, which the device alone changes.
struct build_state {
  uint32_t level_begin, level_end;  // of nodes[]: those to be split now
  uint32_t num_nodes;
  uint32_t num_large[2], num_units[2];  // of this level and the next: parity tells which
  uint32_t parity;
  uint32_t failed_requests;
  uint32_t out_of_room;            // the arrays below were too short
  uint32_t stopped;                // the next level might have asked for more than may_ask
  simt::uint64_t may_ask;          // bytes that a heap still has whose blocks must never come again; ~0 where that does not matter
  simt::uint64_t next_references;  // handed on in this level; counted where may_ask matters
  // Of the queue of work. Apart, as all warps change them.
  alignas(128) uint32_t work_head;   // places that warps have taken
  alignas(128) uint32_t work_tail;   // places that have, or get, an entry
  alignas(128) uint32_t unfinished;  // entries that are not done
};

// An entry of the queue of work; 0: none yet.
//
//   node    split it
//   count   count references `first` .. of a large node for its planes
//   give    hand references `first` .. of a large node on to its children
struct work_entry {
  enum kind_type : uint32_t { none, node, count, give };
  simt::uint64_t bits = 0;  // {what : 32, unit : 30, kind : 2}

  [[nodiscard]] GPUHEAP_HD static constexpr work_entry of(kind_type kind, uint32_t what, uint32_t unit = 0) {
    return {simt::uint64_t{what} << 32 | unit << 2 | kind};
  }
  [[nodiscard]] GPUHEAP_HD constexpr kind_type kind() const { return static_cast<kind_type>(bits & 3); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t what() const { return static_cast<uint32_t>(bits >> 32); }  // of nodes[], or large[0]
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t first() const { return (static_cast<uint32_t>(bits) >> 2) * large_from; }
};

// The arguments of all kernels of a build. The arrays are the case's own; the heap holds only nodes and lists.
struct build_arrays {
  box const* bounds;  // of the triangles
  uint32_t num_triangles;
  uint32_t max_depth;
  build_state* state;
  node** nodes;  // in the order in which they were made: level after level
  uint32_t room_for_nodes;
  large_node* large[2];
  void** retired;                     // lists of large nodes to be freed at the end of the level
  uint32_t (*counts)[6][num_planes];  // of the large nodes of this level
  unit* units[2];
  uint32_t room_for_large, room_for_units;
  simt::uint64_t* work = nullptr;  // the queue: an entry has its place for ever
  uint32_t room_for_work = 0;
};

[[nodiscard]] GPUHEAP_HD inline simt::size_t list_bytes(uint32_t references) {
  return simt::round_up_pow2(simt::size_t{references} * sizeof(uint32_t), 16);
}
[[nodiscard]] GPUHEAP_FN inline float plane_of(box const& b, int axis, uint32_t plane) {
  return b.low[axis] + simt::product(b.high[axis] - b.low[axis], static_cast<float>(plane + 1) / static_cast<float>(num_planes + 1));
}
[[nodiscard]] GPUHEAP_FN inline bool reaches_left(box const& triangle, int axis, float plane) { return triangle.low[axis] <= plane; }
[[nodiscard]] GPUHEAP_FN inline bool reaches_right(box const& triangle, int axis, float plane) { return triangle.high[axis] > plane; }

// Each lane counts for its plane of each axis.
[[nodiscard]] GPUHEAP_FN inline plane_counts count_range(box const* bounds, box const& around, uint32_t const* references, uint32_t count) {
  plane_counts counts;
  float plane[3];
  for (int axis = 0; axis < 3; ++axis) plane[axis] = plane_of(around, axis, simt::lane_id());
  GPUHEAP_NO_UNROLL
  for (uint32_t i = 0; i < count; ++i) {
    box const triangle = bounds[references[i]];
    for (int axis = 0; axis < 3; ++axis) {
      counts.left[axis] += reaches_left(triangle, axis, plane[axis]);
      counts.right[axis] += reaches_right(triangle, axis, plane[axis]);
    }
  }
  return counts;
}

}  // namespace gpuheap::bench::kdtree
