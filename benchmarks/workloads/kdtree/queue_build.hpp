// The build in one kernel of persistent warps, as published: each warp takes an entry from a queue of work, processes it and adds the
// entries that follow from it, until nothing is left. So warps do not ask the heap at the same time, as they do if all nodes of a level are
// split at once.
//
// The queue is an array that only grows. A warp takes the next place, by an addition, and waits there for its entry. Entries of large nodes
// are pieces of `large_from` references. The warp that counts the last piece of a node chooses its plane and asks for its children; the
// warp that hands on the last piece frees the node's list.
//
// Orders. An entry is published by a release store, after a sync_warp, and taken by an acquire load, before one: all that any lane of the
// warp before wrote comes before all that a lane of the next one reads. The count of done pieces orders all pieces before the last one's
// thread in the same way.
#pragma once

#include "workloads/kdtree/split.hpp"

namespace gpuheap::bench::kdtree {

// One thread, once the root is filled: the first entries.
struct begin_queue {
  build_arrays tree;
  GPUHEAP_FN void operator()(unsigned) const {
    build_state& s = *tree.state;
    if (s.num_nodes == 0) return;
    node const& root = *tree.nodes[0];
    bool const large = root.large != no_large;
    uint32_t const n = large ? simt::ceil_div(root.num_references, large_from) : 1;
    for (uint32_t u = 0; u < n; ++u) tree.work[u] = work_entry::of(large ? work_entry::count : work_entry::node, 0, u).bits;
    s.num_large[0] = large;
    s.work_tail = s.unfinished = n;
  }
};

// Whole warps.
template <class Ref>
struct build_from_queue : split_level<Ref> {
  using base = split_level<Ref>;
  using base::heap;
  using base::tree;
  using typename base::choice;

  GPUHEAP_FN void operator()(unsigned) const {
    // Ends: take() ends, and returns no entry once all are done. A tree has a bounded number of nodes.
    GPUHEAP_NO_UNROLL
    for (work_entry todo = take(); todo.kind() != work_entry::none; todo = take()) {
      if (todo.kind() == work_entry::node) split(*tree.nodes[todo.what()]);
      if (todo.kind() == work_entry::count) count(todo);
      if (todo.kind() == work_entry::give) give_references(todo);
      simt::sync_warp(simt::all_lanes);  // what the other lanes wrote is released by the first one, too
      // release: the entries that follow from this one are counted. Pairs with take().
      if (simt::lane_id() == 0) counter(tree.state->unfinished).fetch_sub(1, simt::release);
    }
  }

 private:
  [[nodiscard]] GPUHEAP_FN static simt::global_ref<uint32_t> counter(uint32_t& word) { return simt::global_ref<uint32_t>{word}; }

  // The next entry, the same in every lane; none: the tree is done.
  [[nodiscard]] GPUHEAP_FN work_entry take() const {
    work_entry found;
    if (simt::lane_id() == 0) {
      // relaxed: which warp gets which place is all that it decides.
      uint32_t const place = counter(tree.state->work_head).fetch_add(1, simt::relaxed);
      simt::back_off pause;
      // Ends: an entry that is not done is in the hands of a warp that runs, which adds entries or lowers their count to 0. Blocking.
      GPUHEAP_NO_UNROLL
      while (place < tree.room_for_work) {
        // acquire: see the head.
        found.bits = simt::global_ref<simt::uint64_t>{tree.work[place]}.load(simt::acquire);
        // acquire: pairs with the release of warps that are done. The entry is looked at once more, as it may have come before the last one
        // was done.
        if (found.bits != 0 || counter(tree.state->unfinished).load(simt::acquire) == 0) break;
        pause.wait();
      }
    }
    found.bits = simt::shuffle(simt::all_lanes, found.bits, 0);
    simt::sync_warp(simt::all_lanes);
    return found;
  }
  // By lane 0: n entries, units 0 .. n - 1 of the same. What they are about is written, and a sync_warp has passed.
  GPUHEAP_FN void add(work_entry::kind_type kind, uint32_t what, uint32_t n) const {
    if (simt::lane_id() != 0) return;
    // relaxed, both: they count before this warp's own entry is done, which releases them.
    uint32_t const place = counter(tree.state->work_tail).fetch_add(n, simt::relaxed);
    if (place + n > tree.room_for_work) return counter(tree.state->out_of_room).store(1, simt::relaxed);
    counter(tree.state->unfinished).fetch_add(n, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (uint32_t u = 0; u < n; ++u) {
      // release: see the head.
      simt::global_ref<simt::uint64_t>{tree.work[place + u]}.store(work_entry::of(kind, what, u).bits, simt::release);
    }
  }
  GPUHEAP_FN void add_node(node const& n, uint32_t place) const {
    if (n.large != no_large) return add(work_entry::count, n.large, simt::ceil_div(n.num_references, large_from));
    if (n.num_references > most_in_leaf && n.depth < tree.max_depth) add(work_entry::node, place, 1);
  }

  // Whether this is the warp that finishes the last piece of n references; the same in every lane.
  [[nodiscard]] GPUHEAP_FN bool finishes(large_node& large, uint32_t references) const {
    simt::sync_warp(simt::all_lanes);
    uint32_t before = 0;
    // acq_rel: see the head.
    if (simt::lane_id() == 0) before = counter(large.done).fetch_add(1, simt::acq_rel);
    before = simt::shuffle(simt::all_lanes, before, 0);
    simt::sync_warp(simt::all_lanes);
    return before + 1 == simt::ceil_div(references, large_from);
  }
  [[nodiscard]] GPUHEAP_FN static uint32_t piece_of(uint32_t references, uint32_t first) {
    return references - first < large_from ? references - first : large_from;
  }

  GPUHEAP_FN void count(work_entry todo) const {
    large_node& large = tree.large[0][todo.what()];
    node& n = *large.which;
    plane_counts const counts = count_range(tree.bounds, n.bounds, n.references + todo.first(), piece_of(n.num_references, todo.first()));
    auto& sums = tree.counts[todo.what()];
    // relaxed: finishes() orders them.
    for (int axis = 0; axis < 3; ++axis) {
      counter(sums[axis][simt::lane_id()]).fetch_add(counts.left[axis], simt::relaxed);
      counter(sums[3 + axis][simt::lane_id()]).fetch_add(counts.right[axis], simt::relaxed);
    }
    if (!finishes(large, n.num_references)) return;
    plane_counts all;
    for (int axis = 0; axis < 3; ++axis) {
      all.left[axis] = counter(sums[axis][simt::lane_id()]).load(simt::relaxed);
      all.right[axis] = counter(sums[3 + axis][simt::lane_id()]).load(simt::relaxed);
    }
    choice const best = this->choose(n, all);
    if (n.depth >= tree.max_depth || !(best.cost < triangle_cost * static_cast<float>(n.num_references))) return;
    void* const got = ask_for_children(best);
    uint32_t const place = place_for(best, got);
    if (place == no_large) return this->give(got);
    make_children(n, best, got, place);
    if (simt::lane_id() == 0) {
      large.axis = best.axis;
      large.plane = best.plane;
      large.done = 0;
      large.children = place;
    }
    simt::sync_warp(simt::all_lanes);
    add(work_entry::give, todo.what(), simt::ceil_div(n.num_references, large_from));
  }

  GPUHEAP_FN void give_references(work_entry todo) const {
    large_node& large = tree.large[0][todo.what()];
    node& n = *large.which;
    uint32_t const end = todo.first() + piece_of(n.num_references, todo.first());
    GPUHEAP_NO_UNROLL
    for (uint32_t first = todo.first(); first < end; first += simt::warp_lanes) {
      uint32_t const i = first + simt::lane_id();
      uint32_t const reference = i < end ? n.references[i] : 0;
      box const triangle = tree.bounds[reference];
      put(large, 0, n.children[0]->references, reference, i < end && reaches_left(triangle, large.axis, large.plane));
      put(large, 1, n.children[1]->references, reference, i < end && reaches_right(triangle, large.axis, large.plane));
    }
    if (!finishes(large, n.num_references)) return;
    if (simt::lane_id() == 0) {
      heap.free(n.references);
      n.references = nullptr;
    }
    publish_children(large.children);
  }
  // By all lanes of the warp.
  GPUHEAP_FN static void put(large_node& large, int side, uint32_t* list, uint32_t reference, bool goes) {
    simt::lane_mask const all = simt::ballot(simt::all_lanes, goes);
    uint32_t place = 0;
    // relaxed: which thread gets which places is all that it decides.
    if (simt::lane_id() == 0) place = counter(large.filled[side]).fetch_add(simt::popcount(all), simt::relaxed);
    place = simt::shuffle(simt::all_lanes, place, 0);
    if (goes) list[place + simt::popcount(all & ((simt::lane_mask{1} << simt::lane_id()) - 1))] = reference;
  }

  GPUHEAP_FN void split(node& n) const {
    choice const best = this->choose(n, count_range(tree.bounds, n.bounds, n.references, n.num_references));
    if (!(best.cost < triangle_cost * static_cast<float>(n.num_references))) return;
    void* const got = ask_for_children(best);
    uint32_t const place = place_for(best, got);
    if (place == no_large) return this->give(got);
    make_children(n, best, got, place);
    base::hand_on(n, best, got);
    simt::sync_warp(simt::all_lanes);  // every lane has read its references before the list goes
    if (simt::lane_id() == 0) {
      heap.free(n.references);
      n.references = nullptr;
    }
    publish_children(place);
  }

  [[nodiscard]] GPUHEAP_FN static simt::size_t bytes_for(choice const& best, unsigned lane) {
    return lane < 2 ? list_bytes(lane == 0 ? best.left : best.right) : lane < 4 ? sizeof(node) : 0;
  }
  // Lanes 0 and 1 get the children's lists, 2 and 3 the children; nullptr in all if the heap might hand out live blocks.
  [[nodiscard]] GPUHEAP_FN void* ask_for_children(choice const& best) const {
    unsigned const lane = simt::lane_id();
    if constexpr (Ref::allocator_type::traits.overwrites) {
      simt::uint64_t asked = 0;
      // A block takes up to 16 bytes more than was asked for. relaxed: a sum.
      simt::uint64_t const more = list_bytes(best.left) + list_bytes(best.right) + 2 * (sizeof(node) + 32);
      if (lane == 0) asked = simt::global_ref<simt::uint64_t>{tree.state->next_references}.fetch_add(more, simt::relaxed) + more;
      asked = simt::shuffle(simt::all_lanes, asked, 0);
      // The root and its list came first.
      if (asked + list_bytes(tree.num_triangles) + sizeof(node) + 32 > tree.state->may_ask) {
        if (lane == 0) counter(tree.state->stopped).store(1, simt::relaxed);
        return nullptr;
      }
    }
    return this->ask(bytes_for(best, lane));
  }
  // Places among the nodes; no_large: a block or a place is missing.
  [[nodiscard]] GPUHEAP_FN uint32_t place_for(choice const& best, void* got) const {
    bool const missing = bytes_for(best, simt::lane_id()) != 0 && got == nullptr;
    return simt::any_of(simt::all_lanes, missing) ? no_large : this->place_of_children();
  }
  // By all lanes: lane 2 + k makes child k, whose list lane k has. The queue does not know the children yet.
  GPUHEAP_FN void make_children(node& n, choice const& best, void* got, uint32_t place) const {
    unsigned const lane = simt::lane_id(), side = lane & 1;
    auto const list = reinterpret_cast<uint32_t*>(simt::shuffle(simt::all_lanes, reinterpret_cast<simt::uint64_t>(got), side));
    uint32_t const count = side == 0 ? best.left : best.right;
    bool const makes = lane == 2 || lane == 3;
    uint32_t large = no_large;
    if (makes && count >= large_from && n.depth + 1 < tree.max_depth) {
      // relaxed: which node gets which place is all that it decides.
      uint32_t const mine = counter(tree.state->num_large[0]).fetch_add(1, simt::relaxed);
      if (mine < tree.room_for_large) large = mine;
    }
    if (makes) {
      auto* const child = static_cast<node*>(got);
      *child = {n.bounds, count, n.depth + 1, large, list, {nullptr, nullptr}};
      (side == 0 ? child->bounds.high : child->bounds.low).v[best.axis] = best.plane;
      tree.nodes[place + side] = child;
      n.children[side] = child;
      if (large != no_large) tree.large[0][large] = {child, nullptr, 0, 0, {0, 0}, 0, 0};
    }
    // All lanes clear the sums of a large child.
    for (unsigned k = 2; k < 4; ++k) {
      uint32_t const which = simt::shuffle(simt::all_lanes, large, k);
      for (int row = 0; which != no_large && row < 6; ++row) tree.counts[which][row][lane] = 0;
    }
    simt::sync_warp(simt::all_lanes);
  }
  // By all lanes, once the children's lists are full.
  GPUHEAP_FN void publish_children(uint32_t place) const {
    simt::sync_warp(simt::all_lanes);
    for (uint32_t k = 0; k < 2; ++k) add_node(*tree.nodes[place + k], place + k);
  }
};

}  // namespace gpuheap::bench::kdtree
