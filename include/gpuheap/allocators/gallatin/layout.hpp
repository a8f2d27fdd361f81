// The places of the parts of a Gallatin heap, and the numbering of segments, blocks and slices.
//
//   segment of class c:   | block 0 | block 1 | ... | block blocks_of(c) - 1 |         all of one size
//   block of class c:     | slice 0 | slice 1 | ... | slice N - 1 |                    slice_bytes(c) each, N the same in every class
//
// A block of the class with the largest slices is as long as a segment. A block's id is segment * blocks_of(0) + its place in the segment.
// A slot is a word that names the block from which a multiprocessor's requests of one class are served (slots.hpp).
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The parameters, with the paper's values.
struct gallatin_config {
  simt::size_t segment_bytes = simt::size_t{16} << 20;  // a power of two; small heaps have smaller segments
  unsigned smallest_slice = 16;                         // bytes; each power of two from this one to largest_slice is a class
  unsigned largest_slice = 4096;
  unsigned most_slices = 8;      // the most adjacent slices of the largest class that one request gets: 1, 2, 4 or 8
  unsigned least_slots = 4;      // the fewest slots of a class, unless slot_share allows fewer
  unsigned slot_share = 64;      // the blocks in the slots of one class take at most 1/slot_share of the heap, or are one block
  unsigned least_segments = 64;  // a heap that would have fewer has smaller segments
};

namespace gallatin_parts {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;

// The id that no block has.
inline constexpr uint32_t no_block = ~uint32_t{0};

// The layout. Trivially copyable: the view that kernels get contains a copy of it, and so does the heap's state.
template <gallatin_config Config, class Parts>
struct layout {
  using tree_type = typename Parts::tree;
  using segment_type = typename Parts::segment;
  using block_type = typename Parts::block;
  using slot_type = typename Parts::slot;

  static constexpr unsigned lg_smallest = simt::ceil_log2(Config.smallest_slice), lg_largest = simt::ceil_log2(Config.largest_slice);
  static constexpr unsigned num_classes = lg_largest - lg_smallest + 1, top_class = num_classes - 1;
  static constexpr unsigned lg_most_slices = simt::ceil_log2(Config.most_slices);
  static constexpr unsigned fewest_lg_slices = 2, most_lg_slices = simt::ceil_log2(Config.segment_bytes) - lg_largest;
  static constexpr unsigned least_segments = 8;  // the fewest segments of any heap
  static_assert(Config.smallest_slice == 1u << lg_smallest && Config.largest_slice == 1u << lg_largest && lg_smallest >= 4);
  static_assert(Config.smallest_slice <= Config.largest_slice && num_classes <= 31 && lg_most_slices <= 3);
  static_assert(Config.segment_bytes == size_t{1} << (most_lg_slices + lg_largest) && Config.most_slices == 1u << lg_most_slices);
  static_assert(most_lg_slices >= fewest_lg_slices && most_lg_slices <= 15 && Config.least_slots != 0);

  char* base = nullptr;          // the address of segment 0; aligned to the largest slice
  uint64_t* segments = nullptr;  // a word for each segment (segments.hpp)
  uint64_t* homes = nullptr;     // home_words() words for each segment: a bit for each of its blocks that no thread has
  uint64_t* blocks = nullptr;    // a word for each block id, block_stride() words apart (blocks.hpp)
  uint64_t* freed = nullptr;     // slice_words() words for each block id: its slices that were freed
  uint64_t* joined = nullptr;    // slice_words() words for each segment: largest slices, allocated together with the slice before
  uint64_t* slots = nullptr;     // slots_per_class words for each class (slots.hpp)
  uint64_t* trees = nullptr;     // free segments, and for each class its segments with blocks that no thread has
  uint32_t num_segments = 0;
  unsigned lg_slices = 0;  // log2 of N
  unsigned num_sms = 1;
  unsigned slots_per_class = 0;  // num_slots(0)

  // ---- sizes

  [[nodiscard]] GPUHEAP_HD unsigned num_slices() const { return 1u << lg_slices; }
  [[nodiscard]] GPUHEAP_HD unsigned lg_segment() const { return lg_slices + lg_largest; }
  [[nodiscard]] GPUHEAP_HD size_t segment_bytes() const { return size_t{1} << lg_segment(); }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned blocks_of(unsigned c) { return 1u << (top_class - c); }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned home_words() { return (blocks_of(0) + 63) / 64; }
  [[nodiscard]] GPUHEAP_HD static constexpr size_t slice_bytes(unsigned c) { return size_t{1} << (lg_smallest + c); }
  [[nodiscard]] GPUHEAP_HD size_t block_bytes(unsigned c) const { return slice_bytes(c) << lg_slices; }
  // Words of 64 bits for the slices of a block.
  [[nodiscard]] GPUHEAP_HD unsigned slice_words() const { return lg_slices <= 6 ? 1 : 1u << (lg_slices - 6); }
  // The distance between the words of consecutive block ids, in words. Many threads add to such a word, so each lies in a sector of its own
  // if blocks have 256 slices or more.
  [[nodiscard]] GPUHEAP_HD unsigned block_stride() const { return lg_slices >= 8 ? 4 : 1; }
  // log2 of the most slices of the largest class that one request gets: at most half a block.
  [[nodiscard]] GPUHEAP_HD unsigned lg_most() const { return lg_most_slices < lg_slices ? lg_most_slices : lg_slices - 1; }

  // The smallest class whose slices, or whose blocks, hold `bytes`.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_of_slice(size_t bytes) {
    return bytes <= Config.smallest_slice ? 0 : simt::ceil_log2(bytes) - lg_smallest;
  }
  [[nodiscard]] GPUHEAP_HD unsigned class_of_block(size_t bytes) const {
    return bytes <= block_bytes(0) ? 0 : simt::ceil_log2(bytes) - lg_smallest - lg_slices;
  }

  // The number of slots of class c. Class 0 has one for each multiprocessor, and each next class half as many, but at least
  // Config.least_slots. Their blocks take at most 1 / Config.slot_share of the heap, but one slot always exists.
  [[nodiscard]] GPUHEAP_HD unsigned num_slots(unsigned c) const {
    unsigned const wanted = num_sms >> c > Config.least_slots ? num_sms >> c : Config.least_slots;
    uint64_t const share = (uint64_t{num_segments} << (top_class - c)) / Config.slot_share;
    return share >= wanted ? wanted : share == 0 ? 1 : static_cast<unsigned>(share);
  }

  // ---- places

  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t block_id(uint32_t segment, unsigned place) { return segment << top_class | place; }
  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t segment_of(uint32_t block) { return block >> top_class; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned place_of(uint32_t block) { return block & (blocks_of(0) - 1); }
  [[nodiscard]] GPUHEAP_HD char* segment_at(uint32_t segment) const { return base + (size_t{segment} << lg_segment()); }
  [[nodiscard]] GPUHEAP_HD char* slice_at(uint32_t block, unsigned c, unsigned index) const {
    size_t const slice = (size_t{place_of(block)} << lg_slices) + index;
    return segment_at(segment_of(block)) + (slice << (lg_smallest + c));
  }
  [[nodiscard]] GPUHEAP_HD segment_type segment(uint32_t s) const { return {segments + s}; }
  [[nodiscard]] GPUHEAP_HD block_type block(uint32_t id) const {
    return {blocks + size_t{id} * block_stride(), freed + size_t{id} * slice_words(), lg_slices};
  }
  [[nodiscard]] GPUHEAP_HD slot_type slot(unsigned c, unsigned i) const { return {slots + size_t{c} * slots_per_class + i}; }
  [[nodiscard]] GPUHEAP_HD uint64_t* joined_of(uint32_t s) const { return joined + size_t{s} * slice_words(); }
  [[nodiscard]] GPUHEAP_HD uint64_t* homes_of(uint32_t s) const { return homes + size_t{s} * home_words(); }

  [[nodiscard]] GPUHEAP_HD unsigned tree_leaves() const { return bitmap_tree::leaves_for(num_segments); }
  [[nodiscard]] GPUHEAP_HD size_t tree_words() const { return bitmap_tree::words_for(tree_leaves(), 1); }
  [[nodiscard]] GPUHEAP_HD tree_type free_segments() const { return tree_at(0); }
  [[nodiscard]] GPUHEAP_HD tree_type segments_with_blocks(unsigned c) const { return tree_at(c + 1); }

  // ---- the wavefront: the blocks that are in slots from the start. They lie class by class in adjacent segments. The wavefront takes at
  // most a quarter of the heap, and leaves out the classes that would exceed it

  [[nodiscard]] GPUHEAP_HD unsigned wave_segments(unsigned c) const { return (num_slots(c) + blocks_of(c) - 1) / blocks_of(c); }
  // The first segment of class c in the wavefront; num_segments if the wavefront has no block of the class. For num_classes: the end of the
  // wavefront.
  [[nodiscard]] GPUHEAP_HD uint32_t wave_begin(unsigned c) const {
    uint32_t first = 0;
    for (unsigned k = 0; k != num_classes; ++k) {
      bool const fits = first + wave_segments(k) <= num_segments / 4;
      if (k == c) return fits ? first : num_segments;
      if (fits) first += wave_segments(k);
    }
    return first;
  }

#if GPUHEAP_HAS_HOST
  // ---- host: | state | slots | trees | segments | homes | blocks | freed | joined | (to a multiple of 4096) segment 0 | segment 1 | ...

  static constexpr size_t part_alignment = 256;

  // A heap of `n` segments in the memory from `begin` on. Sets `end` to the address behind it.
  [[nodiscard]] static layout of(uint32_t n, unsigned lg_slices, unsigned num_sms, char* begin, size_t state_bytes, char*& end) {
    layout at;
    at.num_segments = n;
    at.lg_slices = lg_slices;
    at.num_sms = num_sms;
    auto next = reinterpret_cast<simt::uintptr_t>(begin) + state_bytes;
    auto const part = [&next](size_t words) {
      auto const here = simt::round_up_pow2(next, part_alignment);
      next = here + words * sizeof(uint64_t);
      return reinterpret_cast<uint64_t*>(here);
    };
    size_t const num_blocks = size_t{n} * blocks_of(0);
    at.slots_per_class = at.num_slots(0);
    at.slots = part(size_t{num_classes} * at.slots_per_class);
    at.trees = part((num_classes + 1) * at.tree_words());
    at.segments = part(n);
    at.homes = part(size_t{n} * home_words());
    at.blocks = part(num_blocks * at.block_stride());
    at.freed = part(num_blocks * at.slice_words());
    at.joined = part(size_t{n} * at.slice_words());
    at.base = reinterpret_cast<char*>(simt::round_up_pow2(next, Config.largest_slice));
    end = at.base + (size_t{n} << at.lg_segment());
    return at;
  }
  // The heap with the most segments of this length that fits into the region.
  [[nodiscard]] static layout fitting(memory::region whole, unsigned lg_slices, unsigned num_sms, size_t state_bytes) {
    auto* const begin = static_cast<char*>(whole.base);
    size_t n = whole.bytes >> (lg_slices + lg_largest);
    size_t const most = ~uint32_t{0} >> (top_class + 1);
    if (n > most) n = most;
    layout at;
    // Ends: `n` falls until segments and metadata fit.
    for (char* end = nullptr;; --n) {
      at = of(static_cast<uint32_t>(n), lg_slices, num_sms, begin, state_bytes, end);
      if (n == 0 || end <= begin + whole.bytes) return at;
    }
  }
  // The heap in this region: with the longest segments of which Config.least_segments fit, or else with the shortest ones.
  [[nodiscard]] static layout over(memory::region whole, unsigned num_sms, size_t state_bytes) {
    layout at;
    // Ends: `lg` falls.
    for (unsigned lg = most_lg_slices;; --lg) {
      at = fitting(whole, lg, num_sms, state_bytes);
      if (at.num_segments >= Config.least_segments || lg == fewest_lg_slices) return at;
    }
  }
  // The bytes of a heap with the fewest and shortest segments, wherever it begins.
  [[nodiscard]] static size_t least_bytes(size_t state_bytes) {
    char* end = nullptr;
    (void)of(least_segments, fewest_lg_slices, ~0u >> 1, nullptr, state_bytes, end);
    return reinterpret_cast<simt::uintptr_t>(end) + part_alignment + Config.largest_slice;
  }
#endif

 private:
  [[nodiscard]] GPUHEAP_HD tree_type tree_at(unsigned i) const {
    tree_type tree;
    static_cast<bitmap_tree&>(tree) = bitmap_tree::over(trees + i * tree_words(), tree_leaves(), 1);
    return tree;
  }
};

}  // namespace gallatin_parts
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
