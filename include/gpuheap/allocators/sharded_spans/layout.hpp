// The layout of a heap in its region, and the conversions between an address and a slot.
//
//   region: | control | shard words | segment tags | pages | trees | records | group counts | slot words | segment 0 | segment 1 | ...
//   record of a segment: | leaves of the lists, one per class | page tags | headers |
//
// The metadata takes about 1 % of the region, most of it one bit for each 16 bytes. A segment has 64 pages. A segment is *broken* while its
// pages are claimed separately, and *whole* otherwise. A page is a 2^17th of the region, rounded to a power of two. It has at least 4 KiB
// (1 KiB in a region of less than 16 MiB) and at most 128 KiB (64 KiB in a heap that grows; more where the region exceeds 512 GiB). In 8
// GiB a page has 64 KiB and a segment 4 MiB. The last segment of a heap that does not grow may have fewer than 64 pages; such a segment is
// always a broken one.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/slot_map.hpp>
#include <gpuheap/structures/span_words.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;
using structures::shard_word;
using structures::slot_map;
using structures::span_header;
using structures::span_tag;
namespace size_classes = structures::size_classes;

// Where the words of an active span are: its shard's word, its header, and its slot words and group counts.
struct active_span {
  uint64_t* shard = nullptr;
  uint64_t* header = nullptr;
  slot_map map;
};

// Plain data, the same in every kernel and in the control block. All pointers point into the region.
struct alignas(16) layout {
  static constexpr unsigned max_lg_shards = 4;
  static constexpr unsigned lg_pages = 6;  // log2 of the pages of a segment
  static constexpr unsigned min_page_shift = 10, growing_page_shift = 16, large_page_shift = 17;

  // Fields that are used together lie together, so that one load of 16 bytes gets them.
  char* base = nullptr;  // segment 0, aligned to a page
  unsigned page_shift = 0;
  unsigned bits_per_page = 0;  // slots that a page has bits for

  uint64_t* shards = nullptr;  // shard words
  unsigned lg_shards = 0;
  unsigned shard_stride = 1;  // in words of 8 bytes; 128 (1 KiB) in large heaps puts shards into different slices of the L2

  span_tag::word* segment_tags = nullptr;
  unsigned tag_stride = 1;  // distance of the tags of two segments, in words of 4 bytes
  unsigned num_pages = 0;   // pages for which the metadata has room

  char* headers = nullptr;     // the headers in the first record
  unsigned record_bytes = 0;   // bytes of a segment's record
  unsigned header_stride = 1;  // distance of two headers, in words of 8 bytes

  uint64_t* words = nullptr;   // slot words
  unsigned* groups = nullptr;  // group counts

  unsigned words_per_page = 0;
  unsigned groups_per_page = 0;
  unsigned group_stride = 1;  // distance of the counts of two groups, in counts of 4 bytes
  unsigned num_classes = 0;

  char* records = nullptr;        // a record for each segment
  uint64_t* summaries = nullptr;  // summaries of each class's partial list

  uint64_t* pages = nullptr;  // for each broken segment, a bit for each free page
  uint64_t* trees = nullptr;  // trees of whole and of broken segments
  unsigned leaf_stride = 1;   // distance of two leaves of the tree of whole segments, in words of 8 bytes

  [[nodiscard]] GPUHEAP_HD constexpr unsigned segment_shift() const { return page_shift + lg_pages; }
  [[nodiscard]] GPUHEAP_HD size_t segment_bytes() const { return size_t{1} << segment_shift(); }
  [[nodiscard]] GPUHEAP_HD size_t page_bytes() const { return size_t{1} << page_shift; }
  [[nodiscard]] GPUHEAP_HD unsigned num_segments() const { return (num_pages + (1u << lg_pages) - 1) >> lg_pages; }
  [[nodiscard]] GPUHEAP_HD unsigned num_shards() const { return 1u << lg_shards; }
  [[nodiscard]] GPUHEAP_HD size_t heap_bytes() const { return size_t{num_pages} << page_shift; }
  // The number of pages that a large allocation of `bytes` bytes takes. `bytes` is at most heap_bytes().
  [[nodiscard]] GPUHEAP_HD unsigned large_pages(size_t bytes) const {
    return static_cast<unsigned>((bytes + page_bytes() - 1) >> page_shift);
  }
  // Bytes of the largest request that is served from slots. A larger request takes pages of its own.
  [[nodiscard]] GPUHEAP_HD uint32_t largest_slot() const { return size_classes::slot_bytes(num_classes - 1); }

  // ---- spans
  // log2 of the bytes of a unit. The length of a span counts units: segments if it is `of_segments`, otherwise pages.
  [[nodiscard]] GPUHEAP_HD unsigned unit_shift(bool of_segments) const { return of_segments ? segment_shift() : page_shift; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned pages_of_unit(bool of_segments) { return of_segments ? 1u << lg_pages : 1; }
  // Units that a span of `num_slots` slots of class c needs.
  [[nodiscard]] GPUHEAP_HD unsigned units_for(unsigned c, unsigned num_slots, bool of_segments) const {
    uint64_t const bytes = uint64_t{num_slots} * size_classes::slot_bytes(c);
    unsigned const shift = unit_shift(of_segments), bits = pages_of_unit(of_segments) * bits_per_page;
    unsigned const by_bytes = static_cast<unsigned>((bytes + (uint64_t{1} << shift) - 1) >> shift), by_bits = (num_slots + bits - 1) / bits;
    return by_bytes < by_bits ? by_bits : by_bytes;
  }
  // Slots of class c in a span of `length` units.
  [[nodiscard]] GPUHEAP_HD unsigned span_slots(unsigned c, unsigned length, bool of_segments) const {
    unsigned const slots = size_classes::slot_of(c, length << unit_shift(of_segments));
    // Pages of less than 4 KiB have fewer bits than slots of the smallest class.
    unsigned const bits = pages_of_unit(of_segments) * length * bits_per_page;
    unsigned const most = bits < shard_word::max_slots ? bits : shard_word::max_slots;
    return slots < most ? slots : most;
  }
  [[nodiscard]] GPUHEAP_HD unsigned span_slots(span_header h) const { return span_slots(h.size_class(), h.length(), h.of_segments()); }
  // Segments of the longest span of class c: at most 1 GiB, and no more slots than a shard word counts. 0 if one segment exceeds that.
  [[nodiscard]] GPUHEAP_HD unsigned max_span_segments(unsigned c) const {
    unsigned const fit = 1u << (30 - segment_shift());
    unsigned const most = fit < span_header::max_length ? fit : span_header::max_length;
    uint64_t const useful = uint64_t{size_classes::slot_bytes(c)} * shard_word::max_slots >> segment_shift();
    return useful < most ? static_cast<unsigned>(useful) : most;
  }
  [[nodiscard]] GPUHEAP_HD slot_map slots_of(unsigned page) const {
    return {words + size_t{page} * words_per_page, groups + size_t{page} * (groups_per_page * group_stride), group_stride};
  }
  [[nodiscard]] GPUHEAP_HD void* address(unsigned page, unsigned slot, unsigned c) const {
    return base + (size_t{page} << page_shift) + size_t{slot} * size_classes::slot_bytes(c);
  }

  // The span of class c at `page`, which shard k holds.
  [[nodiscard]] GPUHEAP_HD active_span active(unsigned page, unsigned c, unsigned k) const {
    return {shard_at(c, k), header_at(page), slots_of(page)};
  }

  // ---- shared words
  [[nodiscard]] GPUHEAP_HD uint64_t* shard_at(unsigned c, unsigned k) const { return shards + size_t{(c << lg_shards) + k} * shard_stride; }
  [[nodiscard]] GPUHEAP_HD uint64_t* header_at(unsigned page) const {
    return reinterpret_cast<uint64_t*>(headers_of(page) + header_bytes() * (page % 64));
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> shard(unsigned c, unsigned k) const {
    return simt::global_ref<uint64_t>{*shard_at(c, k)};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> header(unsigned page) const { return simt::global_ref<uint64_t>{*header_at(page)}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<span_tag::word> segment_tag(unsigned s) const {
    return simt::global_ref<span_tag::word>{segment_tags[size_t{s} * tag_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<span_tag::word> page_tag(unsigned page) const {
    return simt::global_ref<span_tag::word>{*tag_in_record(page)};
  }
  [[nodiscard]] GPUHEAP_FN span_tag::word* tag_in_record(unsigned page) const {
    return reinterpret_cast<span_tag::word*>(headers_of(page) - tag_bytes) + page % 64;
  }

  // ---- the record of a segment
  static constexpr unsigned tag_bytes = 64 * static_cast<unsigned>(sizeof(span_tag::word));
  [[nodiscard]] GPUHEAP_HD char* headers_of(unsigned page) const { return headers + size_t{page >> lg_pages} * record_bytes; }
  [[nodiscard]] GPUHEAP_HD unsigned headers_at() const { return num_classes * 8 + tag_bytes; }
  [[nodiscard]] GPUHEAP_HD unsigned header_bytes() const { return header_stride * 8; }
  // The tags of adjacent segments or pages.
  struct tag_row {
    span_tag::word* first;
    unsigned stride;
    [[nodiscard]] GPUHEAP_FN simt::global_ref<span_tag::word> operator[](unsigned i) const {
      return simt::global_ref<span_tag::word>{first[size_t{i} * stride]};
    }
  };
  // The tags of the units of the span that begins at `page`.
  [[nodiscard]] GPUHEAP_FN tag_row unit_tags(unsigned page, bool of_segments) const {
    if (of_segments) return {segment_tags + size_t{page >> lg_pages} * tag_stride, tag_stride};
    return {tag_in_record(page), 1};
  }

  // ---- trees
  [[nodiscard]] GPUHEAP_HD unsigned segment_leaves() const { return bitmap_tree::leaves_for(num_segments()); }
  [[nodiscard]] GPUHEAP_HD unsigned page_leaves() const { return num_segments(); }
  [[nodiscard]] GPUHEAP_HD unsigned whole_words() const { return bitmap_tree::words_for(segment_leaves(), leaf_stride); }
  [[nodiscard]] GPUHEAP_HD unsigned broken_words() const { return bitmap_tree::words_for(segment_leaves(), 1); }
  // Words of a partial list's summaries.
  [[nodiscard]] GPUHEAP_HD unsigned partial_words() const { return bitmap_tree::words_for(page_leaves(), 0); }
  [[nodiscard]] GPUHEAP_HD size_t tree_words() const { return whole_words() + broken_words() + size_t{num_classes} * partial_words(); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree whole_tree() const { return bitmap_tree::over(trees, segment_leaves(), leaf_stride); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree broken_tree() const { return bitmap_tree::over(trees + whole_words(), segment_leaves(), 1); }
  // The pages at which partial spans of class c begin. The tree's leaves lie in the records of the segments.
  [[nodiscard]] GPUHEAP_HD bitmap_tree partial_tree(unsigned c) const {
    bitmap_tree tree = bitmap_tree::over(summaries + size_t{c} * partial_words(), page_leaves(), 0);
    tree.leaves = reinterpret_cast<uint64_t*>(records) + c;
    tree.leaf_stride = record_bytes / 8;
    return tree;
  }
  [[nodiscard]] GPUHEAP_HD unsigned class_of_partial(bitmap_tree const& listed) const {
    return static_cast<unsigned>(listed.leaves - reinterpret_cast<uint64_t*>(records));
  }

  // ---- from an address
  struct place {
    static constexpr unsigned none = ~0u;
    unsigned page = 0;     // the span's first page
    unsigned slot = none;  // `none` unless the address is the start of one of the span's slots
    span_tag tag{};
    [[nodiscard]] GPUHEAP_HD constexpr bool exact() const { return slot != none; }
  };
  // The page that p lies in: num_pages or more if p is not in the heap.
  [[nodiscard]] GPUHEAP_HD size_t page_of(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - base) >> page_shift;
  }
  // The tag of the memory that p lies in, and whether the tag is a segment's. No tag if p is not in the heap. `where` is page_of(p).
  struct tag_found {
    span_tag tag{};
    bool of_segments = false;
  };
  [[nodiscard]] GPUHEAP_FN tag_found tag_of(size_t where) const {
    if (where >= num_pages) return {};
    unsigned const page = static_cast<unsigned>(where);
    // relaxed, both: the tag of a live block was written before malloc returned the pointer.
    span_tag const of_segment{segment_tag(page >> lg_pages).load(simt::relaxed)};
    if (of_segment.bits != span_tag::broken_up) return {of_segment, true};
    return {span_tag{page_tag(page).load(simt::relaxed)}, false};
  }
  // Whether a large allocation begins at p, which lies in `page` with the tag `found`. A segment's tag says that one begins at the
  // segment's first page.
  [[nodiscard]] GPUHEAP_HD bool heads_large(void const* p, size_t page, tag_found found) const {
    return found.tag.bits == span_tag::large_head && (!found.of_segments || page % 64 == 0) &&
           p == address(static_cast<unsigned>(page), 0, 0);
  }
  // The slot that begins at p, which lies in `page`. The page's tag `found` is a span's.
  [[nodiscard]] GPUHEAP_HD place locate(void const* p, unsigned page, tag_found found) const {
    place at;
    at.tag = found.tag;
    at.page = found.of_segments ? ((page >> lg_pages) - found.tag.distance()) << lg_pages : page - found.tag.distance();
    uint32_t const offset = static_cast<uint32_t>(static_cast<char const*>(p) - base - (size_t{at.page} << page_shift));
    // Every free calls this function, so it divides by one multiplication. The tag holds the slot's size as odd << shift, and
    // exact_quotient() returns a number beyond all slots if the size does not divide the offset.
    unsigned const shift = found.tag.shift(), odd = found.tag.odd_factor();
    uint32_t const slot = size_classes::exact_quotient(offset >> shift, odd);
    if (offset >> shift << shift == offset && slot < shard_word::max_slots &&
        slot < found.tag.length() * pages_of_unit(found.of_segments) * bits_per_page &&
        offset + (odd << shift) <= found.tag.length() << unit_shift(found.of_segments))
      at.slot = slot;
    return at;
  }
};

#if GPUHEAP_HAS_HOST
// The offsets of a heap's arrays from the region's start, aligned to 128 bytes. Host.
struct layout_plan {
  layout shape{};  // counts and strides; pointers not set
  size_t control_at = 0, shards_at = 0, segment_tags_at = 0, pages_at = 0, trees_at = 0;
  size_t records_at = 0, groups_at = 0, words_at = 0;  // in a heap that grows, these arrays get memory piece by piece
  size_t metadata_bytes = 0;                           // from the region's start to segment 0
};

// Plans a heap in the region, with as many pages as fit together with their metadata. In a heap that `grows`, each segment has 64 pages.
// `control_bytes` is the size of the control block, `usable_bytes` the part of the region with which the heap begins. The plan has no page
// if the region is too small.
[[nodiscard]] inline layout_plan plan_layout(memory::region where, size_t control_bytes, size_t usable_bytes, bool grows) {
  layout_plan plan;
  layout& s = plan.shape;
  constexpr size_t small = size_t{16} << 20;
  unsigned const least = where.bytes < small ? layout::min_page_shift : 12, wanted = simt::highest_bit((where.bytes >> 17) + 1);
  unsigned const most = grows ? layout::growing_page_shift : layout::large_page_shift;
  s.page_shift = wanted < least ? least : wanted > most ? most : wanted;
  // Ends: the number of pages falls with every pass.
  while (where.bytes >> s.page_shift > shard_word::max_pages) ++s.page_shift;
  // A slot has at most 16 pages, or 8 pages of less than 4 KiB.
  unsigned const most_shift = s.page_shift + (s.page_shift < 12 ? 3 : 4);
  s.num_classes = size_classes::class_of(most_shift > 20 ? size_classes::largest_bytes : 1u << most_shift) + 1;
  s.words_per_page = s.page_shift < 12 ? 1u << (s.page_shift - 10) : slot_map::words_for(1u << (s.page_shift - 4));
  s.bits_per_page = s.words_per_page * slot_map::slots_per_word;
  s.groups_per_page = slot_map::groups_for(s.words_per_page);
  // Strides keep words apart where that costs little memory. In a heap of 64 MiB or more, the shard words lie in different slices of the
  // L2. The header and the group count of a page of 16 KiB or more lie in sectors of their own.
  unsigned const lg_size = simt::highest_bit(usable_bytes | 1);
  s.lg_shards = lg_size >= 24 ? layout::max_lg_shards : lg_size >= 21 ? lg_size - 20 : 0;
  s.shard_stride = lg_size >= 26 ? 128 : lg_size >= 21 ? 16 : 1;
  s.header_stride = s.page_shift >= 14 ? 4 : 1;
  // All frees of a large launch read a few tags. The tags of segments of 256 KiB or more lie in different sectors, those of segments of 4
  // MiB or more in different cache lines.
  s.tag_stride = s.page_shift >= 16 ? 32 : s.page_shift >= 12 ? 8 : 1;
  s.group_stride = s.page_shift >= 14 ? 8 : 1;
  s.leaf_stride = lg_size >= 24 ? 16 : 1;
  s.record_bytes = s.headers_at() + 64 * s.header_bytes();

  // The first pass tries more pages than can fit. Each later pass tries fewer, until the pages and their metadata fit.
  size_t pages = where.bytes >> s.page_shift;
  // Ends: `pages` falls with every pass.
  while (pages != 0) {
    if (grows) pages = pages >> layout::lg_pages << layout::lg_pages;
    s.num_pages = static_cast<unsigned>(pages);
    size_t at = 0;
    auto const take = [&at](size_t bytes) {
      size_t const begin = at;
      at += simt::round_up_pow2(bytes, 128);
      return begin;
    };
    size_t const segments = s.num_segments();
    plan.control_at = take(control_bytes);
    plan.shards_at = take((size_t{s.num_classes} << s.lg_shards) * s.shard_stride * sizeof(uint64_t));
    plan.segment_tags_at = take(segments * s.tag_stride * sizeof(span_tag::word));
    plan.pages_at = take(segments * sizeof(uint64_t));
    plan.trees_at = take(s.tree_words() * sizeof(uint64_t));
    plan.records_at = take(segments * s.record_bytes);
    plan.groups_at = take(pages * s.groups_per_page * s.group_stride * sizeof(unsigned));
    plan.words_at = take(pages * s.words_per_page * sizeof(uint64_t));
    size_t const begin = reinterpret_cast<simt::uintptr_t>(where.base);
    size_t const metadata = simt::round_up_pow2(begin, 128) - begin + at;
    size_t const first = simt::round_up_pow2(begin + metadata, s.page_bytes()) - begin;
    plan.metadata_bytes = first;
    if (first + (pages << s.page_shift) <= where.bytes) return plan;
    size_t const fit = first < where.bytes ? (where.bytes - first) >> s.page_shift : 0;
    // `fit` is the number of pages for which the metadata of `pages` pages leaves room. Fewer pages need less metadata, so at least `fit`
    // pages fit. The next pass tries the middle between `fit` and `pages`.
    pages = pages - 1 > fit + (pages - fit) / 2 ? fit + (pages - fit) / 2 : pages - 1;
  }
  s.num_pages = 0;
  return plan;
}

// Returns the plan's layout with its pointers set. Host.
[[nodiscard]] inline layout place_layout(layout_plan const& plan, memory::region where) {
  layout at = plan.shape;
  char* const begin = reinterpret_cast<char*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), 128));
  at.base = static_cast<char*>(where.base) + plan.metadata_bytes;
  at.shards = reinterpret_cast<uint64_t*>(begin + plan.shards_at);
  at.segment_tags = reinterpret_cast<span_tag::word*>(begin + plan.segment_tags_at);
  at.pages = reinterpret_cast<uint64_t*>(begin + plan.pages_at);
  at.trees = reinterpret_cast<uint64_t*>(begin + plan.trees_at);
  at.summaries = at.trees + at.whole_words() + at.broken_words();
  at.records = begin + plan.records_at;
  at.headers = at.records + at.headers_at();
  at.groups = reinterpret_cast<unsigned*>(begin + plan.groups_at);
  at.words = reinterpret_cast<uint64_t*>(begin + plan.words_at);
  return at;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
