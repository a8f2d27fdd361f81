// Adds segments to a heap and removes segments from it, while no kernel uses it.
//
// The layout has room for all segments that the heap may ever have. The first spans::segments_there of them have memory.
//
//   usable from the start   | control | shard words | segment tags | pages | trees |
//   grows with the segments                                                        | records .. | group counts .. | slot words .. |
//   segments .. |
//
// A segment without memory has the same state as a claimed segment without a span: it is in no tree, none of its pages is free, and its tag
// is 0. So no claim finds it, a pointer into it is foreign, and its record, counts and words are never read. The metadata of a removed
// segment keeps its memory.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/control.hpp>
#include <gpuheap/allocators/sharded_spans/prepared.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The segments first..end-1, first < end. A kernel visits them with one thread for each leaf of the tree of whole segments.
struct segment_range {
  unsigned first = 0, end = 0;

  [[nodiscard]] GPUHEAP_HD unsigned num_leaves() const {
    return (end - 1) / bitmap_tree::bits_per_leaf - first / bitmap_tree::bits_per_leaf + 1;
  }
  // The leaf that thread i visits.
  [[nodiscard]] GPUHEAP_HD unsigned leaf(unsigned i) const { return first / bitmap_tree::bits_per_leaf + i; }
  // A bit for each segment of `leaf` that is in the range.
  [[nodiscard]] GPUHEAP_HD uint64_t mask(unsigned leaf) const {
    unsigned const base = leaf * bitmap_tree::bits_per_leaf;
    unsigned const from = first > base ? first - base : 0, to = end > base ? end - base : 0;
    return simt::low_bits(to < 64 ? to : 64) & ~simt::low_bits(from < 64 ? from : 64);
  }
};

// Kernel: adds the segments of `range`, all of them free except for the `prepared` spans. It has one thread for each leaf, and at least one
// for each prepared span. relaxed, all: the end of the kernel orders its stores before later kernels.
struct add_segments {
  spans* heap;
  segment_range range;
  prepared_spans prepared;
  [[nodiscard]] GPUHEAP_HD unsigned num_threads() const {
    return prepared.classes < range.num_leaves() ? range.num_leaves() : prepared.classes;
  }
  GPUHEAP_FN void operator()(unsigned i) const {
    layout const& at = heap->at;
    // The heap's last segment may have fewer pages than a whole one.
    unsigned const there = range.end << at.lg_pages < at.num_pages ? range.end << at.lg_pages : at.num_pages;
    bool const is_partial = there % 64 != 0;
    unsigned const broken = prepared.classes == 0 ? 0 : prepared_spans::segments;
    segment_range const whole{range.first + broken, is_partial ? range.end - 1 : range.end};
    if (uint64_t const mask = i < range.num_leaves() ? whole.mask(range.leaf(i)) : 0; mask != 0)
      at.whole_tree().set_mask(range.leaf(i), mask);
    if (i < prepared.classes) prepare_span(*heap, i, prepared.page[i], prepared.pages[i]);
    if (i != 0) return;
    if (prepared.classes != 0) {
      for (unsigned s = 0; s < broken; ++s) heap->segments().break_up(s, ~prepared.used[s]);
      simt::global_ref<uint64_t>{heap->active_word}.store(simt::low_bits(prepared.classes), simt::relaxed);
      simt::global_ref<unsigned>{heap->divided}.store(broken, simt::relaxed);
    }
    if (is_partial) heap->segments().break_up(range.end - 1, simt::low_bits(there % 64));
    unsigned const free = there - (range.first << at.lg_pages) - prepared.held();
    simt::global_ref<unsigned>{heap->num_free}.fetch_add(free, simt::relaxed);
    // The peak of held pages, pages_there - least_free, stays the same.
    simt::global_ref<unsigned>{heap->least_free}.fetch_add(free, simt::relaxed);
    simt::global_ref<unsigned>{heap->segments_there}.store(range.end, simt::relaxed);
    simt::global_ref<unsigned>{heap->pages_there}.store(there, simt::relaxed);
  }
};
// Kernel: removes the segments of `range`, which are the heap's last ones and all free. relaxed, all: as in add_segments.
struct remove_segments {
  spans* heap;
  segment_range range;
  GPUHEAP_FN void operator()(unsigned i) const {
    (void)heap->at.whole_tree().take_mask(range.leaf(i), range.mask(range.leaf(i)));
    if (i != 0) return;
    unsigned const lg_pages = heap->at.lg_pages;
    simt::global_ref<unsigned> const least_free{heap->least_free};
    unsigned const held = (range.end << lg_pages) - least_free.load(simt::relaxed);
    simt::global_ref<unsigned>{heap->peak_held}.fetch_max(held, simt::relaxed);
    unsigned const removed = (range.end - range.first) << lg_pages;
    unsigned const left = simt::global_ref<unsigned>{heap->num_free}.fetch_sub(removed, simt::relaxed) - removed;
    least_free.store(left, simt::relaxed);
    simt::global_ref<unsigned>{heap->segments_there}.store(range.first, simt::relaxed);
    simt::global_ref<unsigned>{heap->pages_there}.store(range.first << lg_pages, simt::relaxed);
  }
};
// Kernel of one warp: drains the shards of all classes.
template <class Named>
struct reclaim_all {
  control<Named>* heap;
  GPUHEAP_FN void operator()(unsigned) const { (void)heap->reclaim(simt::active_mask(), size_classes::count); }
};

#if GPUHEAP_HAS_HOST
// The arrays of a heap that grows, as ranges of its region. Host. The region begins with the control block `heap`, and its base is aligned.
// A template, so that a heap that does not grow compiles none of these kernels.
template <class Spans>
struct growing_parts {
  layout const& at;
  Spans* heap;

  [[nodiscard]] size_t offset_of(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - reinterpret_cast<char const*>(heap));
  }
  // Bytes from the region's start that have memory from the start.
  [[nodiscard]] size_t fixed_bytes() const { return offset_of(at.records); }
  // Bytes of the group counts of a page.
  [[nodiscard]] size_t group_bytes() const { return size_t{at.groups_per_page} * at.group_stride * sizeof(unsigned); }
  // Bytes of the slot words of a page.
  [[nodiscard]] size_t word_bytes() const { return size_t{at.words_per_page} * sizeof(uint64_t); }
  // Bytes of the metadata of a heap of `segments` segments.
  [[nodiscard]] size_t metadata_bytes(unsigned segments) const {
    return fixed_bytes() + size_t{segments} * at.record_bytes + (size_t{segments} << at.lg_pages) * (group_bytes() + word_bytes());
  }
  // Segments that fit into `bytes` bytes together with the heap's metadata.
  [[nodiscard]] unsigned segments_within(size_t bytes) const {
    if (bytes < fixed_bytes()) return 0;
    size_t const each = at.segment_bytes() + metadata_bytes(1) - fixed_bytes();
    size_t const fit = (bytes - fixed_bytes()) / each;
    return fit < at.num_segments() ? static_cast<unsigned>(fit) : at.num_segments();
  }

  // Provides memory for the segments of the range and for their metadata, and adds the segments in stream order, with the `prepared` spans
  // if the heap begins with them. Throws what map() throws; the heap has not changed then.
  void add(segment_range range, memory::map_function const& map, stream_ref stream, prepared_spans const& prepared = {}) const {
    if (range.first == range.end) return;
    struct part {
      void* array;
      size_t bytes;  // bytes for each segment
    };
    part const parts[] = {
        {at.records, at.record_bytes}, {at.groups, group_bytes() * 64}, {at.words, word_bytes() * 64}, {at.base, at.segment_bytes()}};
    size_t const first = range.first, segments = range.end - range.first;
    for (part const& p : parts) map(offset_of(p.array) + first * p.bytes, segments * p.bytes);
    // A segment that was removed before has old metadata, which is overwritten. The last part, the segments themselves, is not.
    for (part const& p : parts) {
      if (p.array != at.base) simt::fill(static_cast<char*>(p.array) + first * p.bytes, 0, segments * p.bytes, stream);
    }
    add_segments const kernel{heap, range, prepared};
    launch(kernel.num_threads(), kernel, {.stream = stream});
  }

  // Removes the free segments at the end of the heap's `there` segments, except the first segment. Returns how many. Waits for the stream;
  // the kernel that removes them is launched in stream order.
  [[nodiscard]] unsigned remove_free(unsigned there, stream_ref stream) const {
    bitmap_tree const whole = at.whole_tree();
    std::vector<uint64_t> leaves(size_t{whole.num_leaves} * whole.leaf_stride);
    simt::copy(leaves.data(), whole.leaves, leaves.size() * sizeof(uint64_t), stream);
    simt::synchronize(stream);
    unsigned left = there;
    // Ends: `left` falls to 1.
    while (left > 1 && (leaves[size_t{(left - 1) / 64} * whole.leaf_stride] >> ((left - 1) % 64) & 1) != 0) --left;
    if (left == there) return 0;
    segment_range const range{left, there};
    launch(range.num_leaves(), remove_segments{heap, range}, {.stream = stream});
    return there - left;
  }
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
