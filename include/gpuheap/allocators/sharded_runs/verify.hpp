// The invariants of a sharded-runs heap at rest, as code: host only, for tests and for people who suspect their heap.
//
// At rest means that no kernel is running on the heap. Then:
//   1. nothing is in transit, and every segment is exactly one of: free, in a run, in a large allocation;
//   2. a free segment has no tag and an unused header; a used one has the tag that its header implies;
//   3. a run's group counts and its header's count say how many words and groups are entirely free;
//   4. a run is bound exactly if one shard holds it; a fresh run's slots not yet handed out have bit 0;
//   5. a run with a free slot can be found: it is listed, or a shard holds it; a run that is entirely free and not bound does not exist;
//   6. every set bit of a tree has its summary bit, and every class with something is in the set of its kind;
//   7. the number of free segments is what the counter says.
#pragma once

#include <gpuheap/allocators/sharded_runs.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What a walk over a heap at rest found.
struct audit {
  std::string problem;  // empty: every invariant holds
  simt::size_t free_segments = 0, runs = 0, large_allocations = 0;
  simt::size_t live_slots = 0;  // handed out and not freed
  simt::size_t live_bytes = 0;  // of those slots, and of large allocations
};

namespace detail {

// A copy of the heap's metadata in host memory, laid out as in the heap.
template <tuning Tuning>
struct image {
  layout at;
  control<Tuning> block;
  std::vector<uint64_t> shards, headers, trees, words;
  std::vector<unsigned> groups;
  std::vector<segment_tag::word> tags;

  image(basic_sharded_runs<Tuning> const& heap, stream_ref stream) : at{heap.geometry()} {
    shards.resize((size_t{at.num_classes} << at.lg_shards) * at.shard_stride);
    headers.resize(size_t{at.num_segments} * at.header_stride);
    trees.resize(size_t{1 + at.num_classes} * at.tree_words());
    words.resize(size_t{at.num_segments} * at.words_per_segment());
    groups.resize(size_t{at.num_segments} * at.groups_per_segment() * at.group_stride);
    tags.resize(at.num_segments);
    simt::copy(&block, heap.control_block(), sizeof block, stream);
    fetch(shards, at.shards, stream);
    fetch(headers, at.headers, stream);
    fetch(trees, at.trees, stream);
    fetch(words, at.words, stream);
    fetch(groups, at.groups, stream);
    fetch(tags, at.tags, stream);
    simt::synchronize(stream);
  }
  template <class T>
  static void fetch(std::vector<T>& to, T const* from, stream_ref stream) {
    simt::copy(to.data(), from, to.size() * sizeof(T), stream);
  }

  [[nodiscard]] run_header header(unsigned s) const { return {headers[size_t{s} * at.header_stride]}; }
  [[nodiscard]] uint64_t leaf(unsigned tree, unsigned i) const {
    return trees[size_t{tree} * at.tree_words() + size_t{i} * at.leaf_stride];
  }
  [[nodiscard]] bool in_tree(unsigned tree, unsigned s) const { return (leaf(tree, s / 64) >> (s % 64) & 1) != 0; }
  [[nodiscard]] bool summary(unsigned tree, unsigned i) const {
    return (trees[size_t{tree} * at.tree_words() + size_t{at.num_leaves} * at.leaf_stride + i / 64] >> (i % 64) & 1) != 0;
  }
};

}  // namespace detail

// Walks the whole heap. Waits for the stream; no kernel may be running on the heap.
template <tuning Tuning>
[[nodiscard]] audit verify(basic_sharded_runs<Tuning> const& heap, stream_ref stream = {}) {
  detail::image<Tuning> const now{heap, stream};
  layout const& at = now.at;
  audit found;
  auto const fail = [&found](std::string const& what) {
    if (found.problem.empty()) found.problem = what;
  };
  auto const name = [](unsigned s) { return "segment " + std::to_string(s); };

  if (!structures::transit_count::quiet(now.block.transit_word)) fail("a move is under way, or was never ended");

  // Who holds which run.
  std::vector<shard_word> holder(at.num_segments);
  // Ends: one pass per shard.
  for (unsigned c = 0; c < at.num_classes; ++c) {
    for (unsigned k = 0; k < at.num_shards(); ++k) {  // Ends: likewise.
      shard_word const w{now.shards[size_t{(c << at.lg_shards) + k} * at.shard_stride]};
      if (!w.has_run()) {
        if (!w.is_idle()) fail("class " + std::to_string(c) + " has a shard that nobody replaces");
        continue;
      }
      if (!w.has_room()) fail("class " + std::to_string(c) + " has a used-up shard that nobody replaces");
      if (!now.header(w.segment()).serves(c))
        fail("a shard of class " + std::to_string(c) + " holds " + name(w.segment()) + ", which does not serve it");
      if (holder[w.segment()].has_run()) fail(name(w.segment()) + " is held by two shards");
      if ((now.block.bound_word >> c & 1) == 0) fail("class " + std::to_string(c) + " holds a run but is not among the bound classes");
      holder[w.segment()] = w;
    }
  }

  // Ends: every pass goes on to the next segment that is not part of what it looked at.
  for (unsigned s = 0; s < at.num_segments;) {
    run_header const h = now.header(s);
    if (now.in_tree(0, s)) {
      if (now.tags[s] != 0) fail(name(s) + " is free but tagged");
      if ((h.bits & (run_header::slots | run_header::large)) != 0) fail(name(s) + " is free but its header is in use");
      ++found.free_segments;
      ++s;
      continue;
    }
    if (h.is_large()) {
      unsigned const n = h.large_segments();
      ++found.large_allocations;
      found.live_bytes += size_t{n} << at.segment_shift;
      // Ends: one pass per segment.
      for (unsigned i = 0; i < n; ++i) {
        if (now.tags[s + i] != (i == 0 ? segment_tag::large_head : segment_tag::large_body))
          fail(name(s + i) + " has a tag unlike its large allocation");
        if (now.in_tree(0, s + i)) fail(name(s + i) + " is free and in a large allocation");
      }
      s += n;
      continue;
    }
    if ((h.bits & run_header::slots) == 0) {
      fail(name(s) + " is lost: neither free nor in use");
      ++s;
      continue;
    }
    ++found.runs;
    unsigned const c = h.size_class(), order = h.order();
    bool const held = holder[s].has_run();
    if (h.is_bound() != held) fail(name(s) + (held ? " is held by a shard but not bound" : " is bound but no shard holds it"));
    // Ends: one pass per segment.
    for (unsigned i = 0; i < 1u << order; ++i) {
      segment_tag const tag{now.tags[s + i]};
      if (!tag.is_slotted() || tag.size_class() != c || tag.order() != order) fail(name(s + i) + " has a tag unlike its run");
      if (now.in_tree(0, s + i)) fail(name(s + i) + " is free and in a run");
    }
    slot_map const map{nullptr, nullptr, 0, at.run_slots(c, order)};
    unsigned full_groups = 0, free_slots = 0;
    // Ends: one pass per group.
    for (unsigned g = 0; g < map.num_groups(); ++g) {
      unsigned full_words = 0;
      // Ends: one pass per word.
      for (unsigned w = g * slot_map::words_per_group; w < g * slot_map::words_per_group + map.group_words(g); ++w) {
        uint64_t const bits = now.words[size_t{s} * at.words_per_segment() + w] & slot_map::all_slots;
        if ((bits & ~map.full(w)) != 0) fail(name(s) + " has a freed slot beyond its end");
        free_slots += simt::popcount(bits);
        full_words += bits == map.full(w);
      }
      if (now.groups[(size_t{s} * at.groups_per_segment() + g) * at.group_stride] != full_words)
        fail(name(s) + " has a wrong count in a group");
      full_groups += full_words == map.group_words(g);
    }
    if (h.full_groups() != full_groups) fail(name(s) + " has a wrong count of full groups");
    unsigned handed_out = map.num_slots;
    if (held && !holder[s].is_sweep()) handed_out = holder[s].next();
    if (free_slots > handed_out) fail(name(s) + " has more freed slots than were handed out");
    if (h.accounted() != (held && holder[s].is_sweep() ? holder[s].next() : 0)) fail(name(s) + " has a wrong account of its sweep");
    bool const listed = now.in_tree(1 + c, s) && (now.block.listed_word >> c & 1) != 0;
    if (!held && free_slots == map.num_slots) fail(name(s) + " is empty and was not released");
    if (!held && free_slots != 0 && !listed) fail(name(s) + " has free slots that nobody can find");
    found.live_slots += handed_out - free_slots;
    found.live_bytes += size_t{handed_out - free_slots} * size_classes::slot_bytes(c);
    s += 1u << order;
  }

  // Ends: one pass per leaf of every tree.
  for (unsigned tree = 0; tree <= at.num_classes; ++tree) {
    for (unsigned i = 0; i < at.num_leaves; ++i) {  // Ends: likewise.
      if (now.leaf(tree, i) != 0 && !now.summary(tree, i)) fail("tree " + std::to_string(tree) + " has a leaf that its summary misses");
    }
  }
  if (found.free_segments != now.block.num_free)
    fail("the count of free segments is " + std::to_string(now.block.num_free) + ", not " + std::to_string(found.free_segments));
  return found;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
#endif
