// Where everything of a sharded-runs heap lies in its region, and the arithmetic from an address to its slot and back.
//
//   region: | control | shard words | tags | trees | pages | headers | group counts | slot words | (to a segment boundary) | segment 0 |
//   ...
//
// The metadata is about 1 % of the region: a bit per 16 bytes and little else. A segment is a 2048th of the region, rounded to a power of
// two, at least 16 KiB and at most 32 MiB; a page is a 64th of it, at least 4 KiB. In 8 GiB: 4 MiB and 64 KiB.
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
using structures::run_tag;
using structures::shard_word;
using structures::slot_map;
namespace size_classes = structures::size_classes;

// Plain data, trivially copyable; the same in every kernel and in the control block. All pointers are into the region.
struct layout {
  static constexpr unsigned max_lg_shards = 4;
  static constexpr unsigned min_page_shift = 12, min_segment_shift = 14, max_segment_shift = 25, max_lg_pages = 6;

  char* base = nullptr;  // segment 0; aligned to a segment
  uint64_t* shards = nullptr;
  run_tag::word* segment_tags = nullptr;
  run_tag::word* page_tags = nullptr;
  uint64_t* words = nullptr;
  unsigned* groups = nullptr;
  uint64_t* headers = nullptr;
  uint64_t* pages = nullptr;
  uint64_t* trees = nullptr;  // whole segments, broken segments, then the listed runs of each class
  unsigned num_segments = 0;  // that there is room for
  unsigned page_shift = 0;
  unsigned lg_pages = 0;  // pages of a segment
  unsigned lg_shards = 0;
  unsigned num_classes = 0;
  unsigned words_per_page = 0;
  unsigned groups_per_page = 0;
  unsigned shard_stride = 1;   // in words of 8 bytes: 1 KiB on large heaps, so that shards lie in different slices of the L2
  unsigned header_stride = 1;  // in words of 8 bytes
  unsigned tag_stride = 1;     // of the segments' tags, in words of 4 bytes
  unsigned group_stride = 1;   // in counts of 4 bytes
  unsigned leaf_stride = 1;    // of the tree of whole segments, in words of 8 bytes

  [[nodiscard]] GPUHEAP_HD unsigned segment_shift() const { return page_shift + lg_pages; }
  [[nodiscard]] GPUHEAP_HD size_t segment_bytes() const { return size_t{1} << segment_shift(); }
  [[nodiscard]] GPUHEAP_HD size_t page_bytes() const { return size_t{1} << page_shift; }
  [[nodiscard]] GPUHEAP_HD unsigned num_pages() const { return num_segments << lg_pages; }
  [[nodiscard]] GPUHEAP_HD unsigned num_shards() const { return 1u << lg_shards; }
  [[nodiscard]] GPUHEAP_HD size_t heap_bytes() const { return size_t{num_segments} << segment_shift(); }
  // The largest request served from slots; larger ones take whole segments.
  [[nodiscard]] GPUHEAP_HD uint32_t largest_slot() const { return size_classes::slot_bytes(num_classes - 1); }

  // ---- runs
  // log2 bytes of what a run's length counts.
  [[nodiscard]] GPUHEAP_HD unsigned unit_shift(bool of_segments) const { return of_segments ? segment_shift() : page_shift; }
  // Slots of class c in a run of `length` units.
  [[nodiscard]] GPUHEAP_HD unsigned run_slots(unsigned c, unsigned length, bool of_segments) const {
    unsigned const slots = size_classes::slot_of(c, length << unit_shift(of_segments));
    return slots < shard_word::max_slots ? slots : shard_word::max_slots;
  }
  [[nodiscard]] GPUHEAP_HD unsigned run_slots(run_header h) const { return run_slots(h.size_class(), h.length(), h.of_segments()); }
  // The longest run of segments that class c can use all of: at most 1 GiB, and as many slots as a shard word counts. 0: those are less
  // than a segment.
  [[nodiscard]] GPUHEAP_HD unsigned max_run_segments(unsigned c) const {
    unsigned const fit = 1u << (30 - segment_shift());
    unsigned const most = fit < run_header::max_length ? fit : run_header::max_length;
    uint64_t const useful = uint64_t{size_classes::slot_bytes(c)} * shard_word::max_slots >> segment_shift();
    return useful < most ? static_cast<unsigned>(useful) : most;
  }
  [[nodiscard]] GPUHEAP_HD slot_map slots_of(unsigned page) const {
    return {words + size_t{page} * words_per_page, groups + size_t{page} * groups_per_page * group_stride, group_stride};
  }
  [[nodiscard]] GPUHEAP_HD void* address(unsigned page, unsigned slot, unsigned c) const {
    return base + (size_t{page} << page_shift) + size_t{slot} * size_classes::slot_bytes(c);
  }

  // ---- shared words
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> shard(unsigned c, unsigned k) const {
    return simt::global_ref<uint64_t>{shards[size_t{(c << lg_shards) + k} * shard_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> header(unsigned page) const {
    return simt::global_ref<uint64_t>{headers[size_t{page} * header_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<run_tag::word> segment_tag(unsigned s) const {
    return simt::global_ref<run_tag::word>{segment_tags[size_t{s} * tag_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<run_tag::word> page_tag(unsigned page) const {
    return simt::global_ref<run_tag::word>{page_tags[page]};
  }
  // The tags of neighbouring units, segments or pages.
  struct tag_row {
    run_tag::word* first;
    unsigned stride;
    [[nodiscard]] GPUHEAP_FN simt::global_ref<run_tag::word> operator[](unsigned i) const {
      return simt::global_ref<run_tag::word>{first[size_t{i} * stride]};
    }
  };
  // Those of the run that begins at `page`.
  [[nodiscard]] GPUHEAP_FN tag_row unit_tags(unsigned page, bool of_segments) const {
    if (of_segments) return {segment_tags + size_t{page >> lg_pages} * tag_stride, tag_stride};
    return {page_tags + page, 1};
  }

  // ---- trees
  [[nodiscard]] GPUHEAP_HD unsigned segment_leaves() const { return bitmap_tree::leaves_for(num_segments); }
  [[nodiscard]] GPUHEAP_HD unsigned page_leaves() const { return bitmap_tree::leaves_for(num_pages()); }
  [[nodiscard]] GPUHEAP_HD unsigned whole_words() const { return bitmap_tree::words_for(segment_leaves(), leaf_stride); }
  [[nodiscard]] GPUHEAP_HD unsigned broken_words() const { return bitmap_tree::words_for(segment_leaves(), 1); }
  [[nodiscard]] GPUHEAP_HD unsigned list_words() const { return bitmap_tree::words_for(page_leaves(), 1); }
  [[nodiscard]] GPUHEAP_HD size_t tree_words() const { return whole_words() + broken_words() + size_t{num_classes} * list_words(); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree whole_tree() const { return bitmap_tree::over(trees, segment_leaves(), leaf_stride); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree broken_tree() const { return bitmap_tree::over(trees + whole_words(), segment_leaves(), 1); }
  // The pages at which listed runs of class c begin.
  [[nodiscard]] GPUHEAP_HD bitmap_tree list_tree(unsigned c) const {
    return bitmap_tree::over(trees + whole_words() + broken_words() + size_t{c} * list_words(), page_leaves(), 1);
  }

  // ---- from an address
  struct place {
    static constexpr unsigned none = ~0u;
    unsigned page = 0;     // the run's first
    unsigned slot = none;  // `none` unless the address is the start of a slot that the run has
    run_tag tag{};
    [[nodiscard]] GPUHEAP_HD constexpr bool exact() const { return slot != none; }
  };
  // The page that `p` lies in; num_pages() or more if p is not in the heap.
  [[nodiscard]] GPUHEAP_HD size_t page_of(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - base) >> page_shift;
  }
  // The tag of the run that p lies in; `where` is page_of(p).
  struct tag_found {
    run_tag tag{};
    bool of_segments = false;
  };
  [[nodiscard]] GPUHEAP_FN tag_found tag_of(size_t where) const {
    if (where >= num_pages()) return {};
    unsigned const page = static_cast<unsigned>(where);
    // relaxed, both: a rightful pointer comes after the malloc that came after the tag was written.
    run_tag const of_segment{segment_tag(page >> lg_pages).load(simt::relaxed)};
    if (of_segment.bits != 0) return {of_segment, true};
    return {run_tag{page_tag(page).load(simt::relaxed)}, false};
  }
  // The slot at p, which lies in this page with this slotted tag.
  [[nodiscard]] GPUHEAP_HD place locate(void const* p, unsigned page, tag_found found) const {
    place at;
    at.tag = found.tag;
    at.page = found.of_segments ? ((page >> lg_pages) - found.tag.distance()) << lg_pages : page - found.tag.distance();
    uint32_t const offset = static_cast<uint32_t>(static_cast<char const*>(p) - base - (size_t{at.page} << page_shift));
    // Every free comes here: a slot's size is read from the tag, and that it divides the offset shows in the quotient.
    unsigned const shift = found.tag.shift(), odd = found.tag.odd_factor();
    uint32_t const slot = size_classes::exact_quotient(offset >> shift, odd);
    if (offset >> shift << shift == offset && slot < shard_word::max_slots &&
        offset + (odd << shift) <= found.tag.length() << unit_shift(found.of_segments))
      at.slot = slot;
    return at;
  }
};

#if GPUHEAP_HAS_HOST
// Where the arrays begin, as offsets from the region's aligned start. Host.
struct layout_plan {
  layout shape{};  // counts and strides; pointers not set
  size_t control_at = 0, shards_at = 0, segment_tags_at = 0, page_tags_at = 0, trees_at = 0, pages_at = 0;
  size_t headers_at = 0, groups_at = 0, words_at = 0;  // the arrays that a growing heap makes usable piece by piece, from the first on
  size_t metadata_bytes = 0;
  bool fits = false;
};

// Plans a heap in the region: as many segments as fit beside their metadata. `control_bytes` is the control block's size.
[[nodiscard]] inline layout_plan plan_layout(memory::region where, size_t control_bytes) {
  layout_plan plan;
  layout& s = plan.shape;
  unsigned shift = simt::highest_bit(where.bytes / 2048 + 1);
  if (shift < layout::min_segment_shift) shift = layout::min_segment_shift;
  if (shift > layout::max_segment_shift) shift = layout::max_segment_shift;
  s.lg_pages = shift - layout::min_page_shift < layout::max_lg_pages ? shift - layout::min_page_shift : layout::max_lg_pages;
  s.page_shift = shift - s.lg_pages;
  s.num_classes = size_classes::class_of(shift > 20 ? size_classes::largest_bytes : 1u << (shift - 1)) + 1;
  s.words_per_page = slot_map::words_for(1u << (s.page_shift - 4));
  s.groups_per_page = slot_map::groups_for(s.words_per_page);
  size_t segments = where.bytes >> shift;
  size_t const most_segments = shard_word::max_pages >> s.lg_pages;
  if (segments > most_segments) segments = most_segments;

  // Ends: `segments` falls with every pass.
  for (; segments != 0; --segments) {
    s.num_segments = static_cast<unsigned>(segments);
    bool const large = segments >= 1024;
    s.lg_shards = large ? layout::max_lg_shards : segments >= 128 ? simt::highest_bit(segments) - 6 : 0;
    // Apart where that costs little: what is hot in different slices of the L2, from 512 MiB on; what a page has in different sectors, from
    // pages of 16 KiB on.
    s.shard_stride = large && shift >= 18 ? 128 : segments >= 128 ? 16 : 1;
    s.header_stride = s.page_shift >= 14 ? 4 : 1;
    // Every free of a large launch reads one of few tags: in different sectors, from segments of 64 KiB on.
    s.tag_stride = shift >= 16 ? 8 : 1;
    s.group_stride = s.page_shift >= 14 ? 8 : 1;
    s.leaf_stride = large ? 16 : 1;
    size_t at = 0;
    auto const take = [&at](size_t bytes) {
      size_t const begin = at;
      at += simt::round_up_pow2(bytes, 128);
      return begin;
    };
    size_t const num_pages = s.num_pages();
    plan.control_at = take(control_bytes);
    plan.shards_at = take((size_t{s.num_classes} << s.lg_shards) * s.shard_stride * sizeof(uint64_t));
    plan.segment_tags_at = take(segments * s.tag_stride * sizeof(run_tag::word));
    plan.page_tags_at = take(num_pages * sizeof(run_tag::word));
    plan.trees_at = take(s.tree_words() * sizeof(uint64_t));
    plan.pages_at = take(segments * sizeof(uint64_t));
    plan.headers_at = take(num_pages * s.header_stride * sizeof(uint64_t));
    plan.groups_at = take(num_pages * s.groups_per_page * s.group_stride * sizeof(unsigned));
    plan.words_at = take(num_pages * s.words_per_page * sizeof(uint64_t));
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
  at.shards = reinterpret_cast<uint64_t*>(begin + plan.shards_at);
  at.segment_tags = reinterpret_cast<run_tag::word*>(begin + plan.segment_tags_at);
  at.page_tags = reinterpret_cast<run_tag::word*>(begin + plan.page_tags_at);
  at.trees = reinterpret_cast<uint64_t*>(begin + plan.trees_at);
  at.pages = reinterpret_cast<uint64_t*>(begin + plan.pages_at);
  at.headers = reinterpret_cast<uint64_t*>(begin + plan.headers_at);
  at.groups = reinterpret_cast<unsigned*>(begin + plan.groups_at);
  at.words = reinterpret_cast<uint64_t*>(begin + plan.words_at);
  return at;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
