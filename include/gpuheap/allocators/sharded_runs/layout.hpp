// Where everything of a sharded-runs heap lies in its region, and the arithmetic from an address to its slot and back.
//
//   region: | control | headers | tags | trees | group counts | slot words | shard words | (to a segment boundary) | segment 0 | segment 1
//   | ...
//
// The metadata is about 1 % of the region: a bit per 16 bytes and little else. Segments are 2 MiB from 8 GiB up and a 4096th of the region,
// rounded to a power of two, below; at least 16 KiB.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/run_words.hpp>
#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/slot_map.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;
using structures::run_header;
using structures::segment_tag;
using structures::shard_word;
using structures::slot_map;
namespace size_classes = structures::size_classes;

// Plain data, trivially copyable; the same in every kernel and in the control block. All pointers are into the region.
struct layout {
  static constexpr unsigned max_lg_shards = 4;
  static constexpr unsigned min_segment_shift = 14, max_segment_shift = 21;
  static constexpr unsigned max_order = 6;

  char* base = nullptr;  // segment 0; aligned to a segment
  uint64_t* shards = nullptr;
  segment_tag::word* tags = nullptr;
  uint64_t* headers = nullptr;
  uint64_t* words = nullptr;
  unsigned* groups = nullptr;
  uint64_t* trees = nullptr;  // leaves and summaries: tree 0 is the free segments, tree 1 + c lists the runs of class c
  unsigned num_segments = 0;
  unsigned segment_shift = 0;
  unsigned lg_shards = 0;
  unsigned num_classes = 0;
  unsigned num_leaves = 0;
  unsigned shard_stride = 1;   // in words of 8 bytes: 1 KiB on large heaps, so that shards lie in different slices of the L2
  unsigned header_stride = 1;  // likewise, 512 bytes
  unsigned group_stride = 1;   // in counts of 4 bytes
  unsigned leaf_stride = 1;    // in words of 8 bytes

  [[nodiscard]] GPUHEAP_HD size_t segment_bytes() const { return size_t{1} << segment_shift; }
  [[nodiscard]] GPUHEAP_HD unsigned num_shards() const { return 1u << lg_shards; }
  [[nodiscard]] GPUHEAP_HD size_t heap_bytes() const { return size_t{num_segments} << segment_shift; }
  // The largest request served from slots; larger ones take whole segments.
  [[nodiscard]] GPUHEAP_HD uint32_t largest_slot() const { return size_classes::slot_bytes(num_classes - 1); }

  // ---- sizes of the arrays, fixed by the segment size
  [[nodiscard]] GPUHEAP_HD unsigned words_per_segment() const { return slot_map::words_for(1u << (segment_shift - 4)); }
  [[nodiscard]] GPUHEAP_HD unsigned groups_per_segment() const { return slot_map::groups_for(words_per_segment()); }
  [[nodiscard]] GPUHEAP_HD unsigned tree_words() const { return num_leaves * leaf_stride + bitmap_tree::summaries_for(num_leaves); }

  // ---- runs
  // Slots of class c in a run of 2^order segments.
  [[nodiscard]] GPUHEAP_HD unsigned run_slots(unsigned c, unsigned order) const {
    return size_classes::slot_of(c, 1u << (segment_shift + order));
  }
  [[nodiscard]] GPUHEAP_HD slot_map slots_of(unsigned first_segment, unsigned c, unsigned order) const {
    return {words + size_t{first_segment} * words_per_segment(), groups + size_t{first_segment} * groups_per_segment() * group_stride,
            group_stride, run_slots(c, order)};
  }
  [[nodiscard]] GPUHEAP_HD void* address(unsigned first_segment, unsigned slot, unsigned c) const {
    return base + (size_t{first_segment} << segment_shift) + size_t{slot} * size_classes::slot_bytes(c);
  }

  // ---- shared words
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<uint64_t> shard(unsigned c, unsigned k) const {
    return simt::atomic_ref<uint64_t>{shards[size_t{(c << lg_shards) + k} * shard_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<uint64_t> header(unsigned segment) const {
    return simt::atomic_ref<uint64_t>{headers[size_t{segment} * header_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<segment_tag::word> tag(unsigned segment) const {
    return simt::atomic_ref<segment_tag::word>{tags[segment]};
  }
  [[nodiscard]] GPUHEAP_HD bitmap_tree tree(unsigned i) const {
    uint64_t* const at = trees + size_t{i} * tree_words();
    return {at, at + size_t{num_leaves} * leaf_stride, num_leaves, leaf_stride};
  }

  // ---- from an address
  struct place {
    unsigned segment = 0;  // the run's first
    unsigned slot = 0;
    unsigned size_class = 0;
    unsigned order = 0;
    segment_tag tag{};
    bool exact = false;  // the address is the start of a slot that the run has
  };
  // The segment that `p` lies in; num_segments or more if p is not in the heap.
  [[nodiscard]] GPUHEAP_HD size_t segment_of(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - base) >> segment_shift;
  }
  // The slot at p, which lies in segment s with this slotted tag.
  [[nodiscard]] GPUHEAP_HD place locate(void const* p, unsigned s, segment_tag tag) const {
    place at;
    at.tag = tag;
    at.size_class = tag.size_class();
    at.order = tag.order();
    at.segment = s & ~((1u << at.order) - 1);
    uint32_t const offset = static_cast<uint32_t>(static_cast<char const*>(p) - base - (size_t{at.segment} << segment_shift));
    at.slot = size_classes::slot_of(at.size_class, offset);
    at.exact = at.slot * size_classes::slot_bytes(at.size_class) == offset && at.slot < run_slots(at.size_class, at.order);
    return at;
  }
};

#if GPUHEAP_HAS_HOST
// Where the arrays begin, as offsets from the region's aligned start. Host.
struct layout_plan {
  layout shape{};  // counts and strides; pointers not set
  size_t control_at = 0, headers_at = 0, tags_at = 0, trees_at = 0, groups_at = 0, words_at = 0, shards_at = 0;
  size_t metadata_bytes = 0;
  bool fits = false;
};

// Plans a heap in the region: as many segments as fit beside their metadata. `control_bytes` is the control block's size.
[[nodiscard]] inline layout_plan plan_layout(memory::region where, size_t control_bytes) {
  layout_plan plan;
  layout& s = plan.shape;
  unsigned shift = simt::highest_bit(where.bytes / 4096 + 1);
  if (shift < layout::min_segment_shift) shift = layout::min_segment_shift;
  if (shift > layout::max_segment_shift) shift = layout::max_segment_shift;
  s.segment_shift = shift;
  s.num_classes = size_classes::class_of(1u << (shift - 1)) + 1;
  if (s.num_classes > size_classes::count) s.num_classes = size_classes::count;
  s.header_stride = 1u << (shift > 15 ? shift - 15 : 0);
  size_t segments = where.bytes >> shift;
  if (segments > shard_word::max_segments) segments = shard_word::max_segments;

  // Ends: `segments` falls with every pass.
  for (; segments != 0; --segments) {
    s.num_segments = static_cast<unsigned>(segments);
    s.num_leaves = bitmap_tree::leaves_for(segments);
    unsigned const lg = segments >= 1024 ? layout::max_lg_shards : segments >= 128 ? simt::highest_bit(segments) - 6 : 0;
    s.lg_shards = lg;
    s.shard_stride = segments >= 1024 ? 128 : segments >= 128 ? 16 : 1;
    s.group_stride = segments >= 1024 ? 8 : 1;
    s.leaf_stride = segments >= 1024 ? 16 : 1;
    size_t at = 0;
    auto const take = [&at](size_t bytes) {
      size_t const begin = at;
      at += simt::round_up_pow2(bytes, 128);
      return begin;
    };
    plan.control_at = take(control_bytes);
    plan.headers_at = take(segments * s.header_stride * sizeof(uint64_t));
    plan.tags_at = take(segments * sizeof(segment_tag::word));
    plan.trees_at = take(size_t{1 + s.num_classes} * s.tree_words() * sizeof(uint64_t));
    plan.groups_at = take(segments * s.groups_per_segment() * s.group_stride * sizeof(unsigned));
    plan.words_at = take(segments * s.words_per_segment() * sizeof(uint64_t));
    plan.shards_at = take((size_t{s.num_classes} << lg) * s.shard_stride * sizeof(uint64_t));
    size_t const begin = reinterpret_cast<simt::uintptr_t>(where.base);
    size_t const metadata = simt::round_up_pow2(begin, 128) - begin + at;
    size_t const first = simt::round_up_pow2(begin + metadata, size_t{1} << shift) - begin;
    if (first + (segments << shift) <= where.bytes) {
      plan.metadata_bytes = first;
      plan.fits = true;
      return plan;
    }
  }
  return plan;
}

// The layout with its pointers into the region. Host.
[[nodiscard]] inline layout place_layout(layout_plan const& plan, memory::region where) {
  layout at = plan.shape;
  char* const begin = reinterpret_cast<char*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), 128));
  at.base = static_cast<char*>(where.base) + plan.metadata_bytes;
  at.headers = reinterpret_cast<uint64_t*>(begin + plan.headers_at);
  at.tags = reinterpret_cast<segment_tag::word*>(begin + plan.tags_at);
  at.trees = reinterpret_cast<uint64_t*>(begin + plan.trees_at);
  at.groups = reinterpret_cast<unsigned*>(begin + plan.groups_at);
  at.words = reinterpret_cast<uint64_t*>(begin + plan.words_at);
  at.shards = reinterpret_cast<uint64_t*>(begin + plan.shards_at);
  return at;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
