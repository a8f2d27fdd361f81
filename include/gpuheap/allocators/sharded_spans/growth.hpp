// A heap gets segments here, and gives them up, while no kernel uses it.
//
// The layout has room for all segments that the heap may ever have. The first spans::segments_there of them have memory.
//
//   usable from the start   | control | shard words | segment tags | pages | trees |
//   grows with the segments                                                        | records .. | group counts .. | slot words .. |
//   segments .. |
//
// A segment without memory looks like one that is owned and has no span: it is in no tree, none of its pages is free, its tag is 0. So no
// claim finds it, a pointer into it is foreign, and its record, counts and words are never read. Metadata keeps its memory when segments
// go.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/control.hpp>
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
  // Thread i's leaf, and which of its segments are in the range.
  [[nodiscard]] GPUHEAP_HD unsigned leaf(unsigned i) const { return first / bitmap_tree::bits_per_leaf + i; }
  [[nodiscard]] GPUHEAP_HD uint64_t mask(unsigned leaf) const {
    unsigned const base = leaf * bitmap_tree::bits_per_leaf;
    unsigned const from = first > base ? first - base : 0, to = end > base ? end - base : 0;
    return simt::low_bits(to < 64 ? to : 64) & ~simt::low_bits(from < 64 ? from : 64);
  }
};

// Kernel: adds these segments, all of them free. relaxed, all: ordered by the kernel's end.
struct add_segments {
  spans* heap;
  segment_range range;
  GPUHEAP_FN void operator()(unsigned i) const {
    layout const& at = heap->at;
    // The heap's last segment may have fewer pages than a whole one.
    unsigned const there = range.end << at.lg_pages < at.num_pages ? range.end << at.lg_pages : at.num_pages;
    bool const is_partial = there % 64 != 0;
    segment_range const whole{range.first, is_partial ? range.end - 1 : range.end};
    if (uint64_t const mask = whole.mask(range.leaf(i)); mask != 0) at.whole_tree().set_mask(range.leaf(i), mask);
    if (i != 0) return;
    if (is_partial) heap->segments().break_up(range.end - 1, simt::low_bits(there % 64));
    unsigned const pages = there - (range.first << at.lg_pages);
    simt::global_ref<unsigned>{heap->num_free}.fetch_add(pages, simt::relaxed);
    simt::global_ref<unsigned>{heap->least_free}.fetch_add(pages, simt::relaxed);  // the peak of held pages stays the same
    simt::global_ref<unsigned>{heap->segments_there}.store(range.end, simt::relaxed);
    simt::global_ref<unsigned>{heap->pages_there}.store(there, simt::relaxed);
  }
};
// Kernel: removes these segments, which are the last and all free. relaxed, all: ordered by the kernel's end.
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
// Kernel of one warp: drains all shards that hold a span without using it.
template <class Named>
struct reclaim_all {
  control<Named>* heap;
  GPUHEAP_FN void operator()(unsigned) const { (void)heap->reclaim(simt::active_mask(), size_classes::count); }
};

#if GPUHEAP_HAS_HOST
// The parts of a heap that grows. Host. The control block begins the region, whose base is aligned. This is a template, so a heap that does
// not grow compiles none of its kernels.
template <class Spans>
struct growing_parts {
  layout const& at;
  Spans* heap;

  [[nodiscard]] size_t offset_of(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - reinterpret_cast<char const*>(heap));
  }
  // Bytes that are usable from the start.
  [[nodiscard]] size_t fixed_bytes() const { return offset_of(at.records); }
  [[nodiscard]] size_t group_bytes() const { return size_t{at.groups_per_page} * at.group_stride * sizeof(unsigned); }
  [[nodiscard]] size_t word_bytes() const { return size_t{at.words_per_page} * sizeof(uint64_t); }
  // Bytes of metadata of a heap of so many segments.
  [[nodiscard]] size_t metadata_bytes(unsigned segments) const {
    return fixed_bytes() + size_t{segments} * at.record_bytes + (size_t{segments} << at.lg_pages) * (group_bytes() + word_bytes());
  }
  // Segments that fit into so many bytes together with their metadata.
  [[nodiscard]] unsigned segments_within(size_t bytes) const {
    if (bytes < fixed_bytes()) return 0;
    size_t const each = at.segment_bytes() + metadata_bytes(1) - fixed_bytes();
    size_t const fit = (bytes - fixed_bytes()) / each;
    return fit < at.num_segments() ? static_cast<unsigned>(fit) : at.num_segments();
  }

  // Makes the segments of the range usable, with their metadata, and free. If map() throws, nothing has changed.
  void add(segment_range range, memory::map_function const& map, stream_ref stream) const {
    if (range.first == range.end) return;
    struct part {
      void* array;
      size_t bytes;  // of a segment
    };
    part const parts[] = {
        {at.records, at.record_bytes}, {at.groups, group_bytes() * 64}, {at.words, word_bytes() * 64}, {at.base, at.segment_bytes()}};
    size_t const first = range.first, segments = range.end - range.first;
    for (part const& p : parts) map(offset_of(p.array) + first * p.bytes, segments * p.bytes);
    // The metadata of segments that had memory before is overwritten. The last part is data.
    for (part const& p : parts) {
      if (p.array != at.base) simt::fill(static_cast<char*>(p.array) + first * p.bytes, 0, segments * p.bytes, stream);
    }
    launch(range.num_leaves(), add_segments{heap, range}, {.stream = stream});
  }

  // Removes the free segments at the end of those `there`, except the first. Returns how many; they are removed in stream order.
  [[nodiscard]] unsigned remove_free(unsigned there, stream_ref stream) const {
    bitmap_tree const whole = at.whole_tree();
    std::vector<uint64_t> leaves(size_t{whole.num_leaves} * whole.leaf_stride);
    simt::copy(leaves.data(), whole.leaves, leaves.size() * sizeof(uint64_t), stream);
    simt::synchronize(stream);
    unsigned left = there;
    // Ends: `left` falls.
    while (left > 1 && (leaves[size_t{(left - 1) / 64} * whole.leaf_stride] >> ((left - 1) % 64) & 1) != 0) --left;
    if (left == there) return 0;
    segment_range const range{left, there};
    launch(range.num_leaves(), remove_segments{heap, range}, {.stream = stream});
    return there - left;
  }
};
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
