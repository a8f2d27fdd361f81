// The kernels of the build that ask the heap.
#pragma once

#include "workloads/kdtree/tree.hpp"

namespace gpuheap::bench::kdtree {

// One thread. The root and its list, empty as yet.
template <class Ref>
struct make_root {
  Ref heap;
  build_arrays tree;
  box bounds;
  GPUHEAP_FN void operator()(unsigned) const {
    void* made[2];
    GPUHEAP_NO_UNROLL
    for (int k = 0; k < 2; ++k) made[k] = heap.malloc(k == 0 ? sizeof(node) : list_bytes(tree.num_triangles));
    auto* const root = static_cast<node*>(made[0]);
    tree.nodes[0] = root;
    bool const failed = root == nullptr || made[1] == nullptr;
    tree.state->failed_requests = failed;
    tree.state->num_nodes = tree.state->level_end = root != nullptr;
    if (root == nullptr) return;
    *root = {bounds, failed ? 0 : tree.num_triangles, 0, no_large, static_cast<uint32_t*>(made[1]), {nullptr, nullptr}};
  }
};

// Whole warps. Each splits every num_warps-th node of the level, or leaves it a leaf.
template <class Ref>
struct split_level {
  Ref heap;
  build_arrays tree;
  unsigned num_warps;

  GPUHEAP_FN void operator()(unsigned thread) const {
    uint32_t const end = tree.state->level_end;
    GPUHEAP_NO_UNROLL
    for (uint32_t i = tree.state->level_begin + thread / simt::warp_lanes; i < end; i += num_warps) split(*tree.nodes[i]);
  }

 protected:
  struct choice {
    float cost;
    int axis;
    float plane;
    uint32_t left, right;
  };

  // The cheapest of all lanes' planes, the same in every lane. The launch has whole warps only, which come here together.
  [[nodiscard]] GPUHEAP_FN choice choose(node const& n, plane_counts const& counts) const {
    float const area = n.bounds.half_area();
    float const per_area = area > 0 ? 1 / area : 0;
    float least = scene::beyond_all;
    uint32_t which = 0;
    for (int axis = 0; axis < 3; ++axis) {
      float const plane = plane_of(n.bounds, axis, simt::lane_id());
      if (!(plane > n.bounds.low[axis] && plane < n.bounds.high[axis])) continue;
      box left = n.bounds, right = n.bounds;
      left.high.v[axis] = right.low.v[axis] = plane;
      float const met = simt::product(left.half_area(), static_cast<float>(counts.left[axis])) +
                        simt::product(right.half_area(), static_cast<float>(counts.right[axis]));
      float const cost = node_cost + simt::product(triangle_cost * met, per_area);
      if (cost < least) {
        least = cost;
        which = static_cast<uint32_t>(axis) * num_planes + simt::lane_id();
      }
    }
    // If costs are equal, the lower number counts, so that all lanes agree.
    for (unsigned distance = simt::warp_lanes / 2; distance != 0; distance /= 2) {
      float const other = simt::shuffle_xor(simt::all_lanes, least, distance);
      uint32_t const others = simt::shuffle_xor(simt::all_lanes, which, distance);
      if (other < least || (other == least && others < which)) {
        least = other;
        which = others;
      }
    }
    int const axis = static_cast<int>(which / num_planes);
    unsigned const owner = which % num_planes;
    uint32_t const left = axis == 0 ? counts.left[0] : axis == 1 ? counts.left[1] : counts.left[2];
    uint32_t const right = axis == 0 ? counts.right[0] : axis == 1 ? counts.right[1] : counts.right[2];
    return {least, axis, plane_of(n.bounds, axis, owner), simt::shuffle(simt::all_lanes, left, owner),
            simt::shuffle(simt::all_lanes, right, owner)};
  }

  [[nodiscard]] GPUHEAP_FN plane_counts counts_of(node const& n) const {
    if (n.large == no_large) return count_range(tree.bounds, n.bounds, n.references, n.num_references);
    plane_counts counts;
    for (int axis = 0; axis < 3; ++axis) {
      counts.left[axis] = tree.counts[n.large][axis][simt::lane_id()];
      counts.right[axis] = tree.counts[n.large][3 + axis][simt::lane_id()];
    }
    return counts;
  }

  GPUHEAP_FN void split(node& n) const {
    if (n.num_references <= most_in_leaf || n.depth >= tree.max_depth) return;
    choice const best = choose(n, counts_of(n));
    if (!(best.cost < triangle_cost * static_cast<float>(n.num_references))) return;

    // Lanes 0 and 1 get the children's lists, 2 and 3 the children.
    unsigned const lane = simt::lane_id();
    uint32_t const mine = lane == 0 ? best.left : best.right;
    simt::size_t const wanted = lane < 2 ? list_bytes(mine) : lane < 4 ? sizeof(node) : 0;
    void* const got = ask(wanted);
    uint32_t const place = simt::any_of(simt::all_lanes, wanted != 0 && got == nullptr) ? no_large : place_of_children();
    bool const done = place != no_large;
    if (done) {
      hand_on(n, best, got);
      add_children(n, best, got, place);
    }
    // The block to give back: this node's list, or, if there is no room for the children, the blocks that were allocated for them. Lists of
    // large nodes are still read.
    void* const back = !done ? got : lane == 0 && n.large == no_large ? n.references : nullptr;
    // Every lane has read its references, and every lane's `back` is known, before the list goes.
    simt::sync_warp(simt::all_lanes);
    if (done && n.large == no_large && lane == 0) n.references = nullptr;
    give(back);
  }

  // One lane asks for all, one after the other: what lane k wants is lane k's answer.
  [[nodiscard]] GPUHEAP_FN void* ask(simt::size_t wanted) const {
    void* mine = nullptr;
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      auto const bytes = simt::shuffle(simt::all_lanes, simt::uint64_t{wanted}, k);
      void* p = nullptr;
      if (simt::lane_id() == 0 && bytes != 0) {
        p = heap.malloc(bytes);
        // relaxed: a tally that the host reads after the build.
        if (p == nullptr) simt::atomic_ref<uint32_t>{tree.state->failed_requests}.fetch_add(1, simt::relaxed);
      }
      p = reinterpret_cast<void*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(p), 0));
      if (simt::lane_id() == k) mine = p;
    }
    // The other lanes get what the first lane acquired with the blocks, before they write there.
    simt::sync_warp(simt::all_lanes);
    return mine;
  }
  // The same for frees.
  GPUHEAP_FN void give(void* mine) const {
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      auto const p = reinterpret_cast<void*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(mine), k));
      if (simt::lane_id() == 0 && p != nullptr) heap.free(p);
    }
  }

  // Two places among the nodes, the same in every lane; no_large if there are none left.
  [[nodiscard]] GPUHEAP_FN uint32_t place_of_children() const {
    uint32_t place = 0;
    if (simt::lane_id() == 0) {
      // relaxed: which thread gets which places is all that it decides; they are read in the next kernel.
      place = simt::atomic_ref<uint32_t>{tree.state->num_nodes}.fetch_add(2, simt::relaxed);
      if (place + 2 > tree.room_for_nodes) {
        // relaxed, both: the host reads them after the build. The count goes back to what the array holds.
        simt::atomic_ref<uint32_t>{tree.state->num_nodes}.fetch_sub(2, simt::relaxed);
        simt::atomic_ref<uint32_t>{tree.state->out_of_room}.store(1, simt::relaxed);
        place = no_large;
      }
    }
    return simt::shuffle(simt::all_lanes, place, 0);
  }

  // The references go to the children's lists, in their order. Those of a large node follow in a kernel of their own.
  GPUHEAP_FN void hand_on(node const& n, choice const& best, void* got) const {
    auto const left = reinterpret_cast<uint32_t*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(got), 0));
    auto const right = reinterpret_cast<uint32_t*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(got), 1));
    if (n.large != no_large) return;
    simt::lane_mask const before = (simt::lane_mask{1} << simt::lane_id()) - 1;
    uint32_t num_left = 0, num_right = 0;
    GPUHEAP_NO_UNROLL
    for (uint32_t first = 0; first < n.num_references; first += simt::warp_lanes) {
      uint32_t const i = first + simt::lane_id();
      uint32_t const reference = i < n.num_references ? n.references[i] : 0;
      bool const goes_left = i < n.num_references && reaches_left(tree.bounds[reference], best.axis, best.plane);
      bool const goes_right = i < n.num_references && reaches_right(tree.bounds[reference], best.axis, best.plane);
      simt::lane_mask const all_left = simt::ballot(simt::all_lanes, goes_left), all_right = simt::ballot(simt::all_lanes, goes_right);
      if (goes_left) left[num_left + simt::popcount(all_left & before)] = reference;
      if (goes_right) right[num_right + simt::popcount(all_right & before)] = reference;
      num_left += simt::popcount(all_left);
      num_right += simt::popcount(all_right);
    }
  }

  GPUHEAP_FN void add_children(node& n, choice const& best, void* got, uint32_t place) const {
    unsigned const lane = simt::lane_id();
    // Lane 2 + k makes child k, whose list lane k has.
    auto const list = reinterpret_cast<uint32_t*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(got), lane & 1));
    uint32_t const count = (lane & 1) == 0 ? best.left : best.right;
    uint32_t const large = add_large(lane == 2 || lane == 3, static_cast<node*>(got), count);
    if (lane == 2 || lane == 3) {
      auto* const child = static_cast<node*>(got);
      unsigned const side = lane & 1;
      *child = {n.bounds, count, n.depth + 1, large, list, {nullptr, nullptr}};
      (side == 0 ? child->bounds.high : child->bounds.low).v[best.axis] = best.plane;
      tree.nodes[place + side] = child;
      n.children[side] = child;
    }
    if constexpr (Ref::allocator_type::traits.overwrites) {
      // relaxed: a sum that the kernel after this one reads.
      if (lane == 0) simt::atomic_ref<simt::uint64_t>{tree.state->next_references}.fetch_add(best.left + best.right, simt::relaxed);
    }
    if (n.large != no_large && lane == 0) {
      large_node& mine = tree.large[tree.state->parity][n.large];
      mine.axis = best.axis;
      mine.plane = best.plane;
      mine.list = n.references;
      n.references = nullptr;
    }
  }

  // Lists the child among the large nodes of the next level, with its units of work, if it is one and there is room. By the lanes that have
  // a child; the others get no_large.
  [[nodiscard]] GPUHEAP_FN uint32_t add_large(bool has_child, node* child, uint32_t count) const {
    if (!has_child || count < large_from) return no_large;
    unsigned const next = tree.state->parity ^ 1;
    uint32_t const num_units = simt::ceil_div(count, large_from);
    // relaxed, both: which thread gets which places is all that they decide; the lists are read in the next kernels. Counts above what
    // there is room for are cut off by next_level.
    uint32_t const first = simt::atomic_ref<uint32_t>{tree.state->num_units[next]}.fetch_add(num_units, simt::relaxed);
    uint32_t const large = simt::atomic_ref<uint32_t>{tree.state->num_large[next]}.fetch_add(1, simt::relaxed);
    bool const fits = first + num_units <= tree.room_for_units && large < tree.room_for_large;
    GPUHEAP_NO_UNROLL
    for (uint32_t u = 0; u < num_units && first + u < tree.room_for_units; ++u) {
      tree.units[next][first + u] = {fits ? large : no_large, u * large_from};
    }
    if (large < tree.room_for_large) tree.large[next][large] = {fits ? child : nullptr, nullptr, 0, 0, {0, 0}, 0, 0};
    return fits ? large : no_large;
  }
};

// Frees pointers[i] for i < *count, nullptrs too.
template <class Ref>
struct free_listed {
  Ref heap;
  void* const* pointers;
  uint32_t const* count;
  unsigned num_threads;
  GPUHEAP_FN void operator()(unsigned thread) const {
    GPUHEAP_NO_UNROLL
    for (uint32_t i = thread; i < *count; i += num_threads) heap.free(pointers[i]);
  }
};

}  // namespace gpuheap::bench::kdtree
