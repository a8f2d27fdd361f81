// The words by which xmalloc knows what a pointer is: the tag before every payload, and the origin in every block's header.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail {

// The 32 bits right below a payload.
//
//   bit  0       12                           22                 29     30
//        | check | distance to the block / 16 | usable bytes / 4 | live | kind |
//
//   distance, usable   of a piece: from the payload of the merged block that it lies in; how much of it may be used
struct xmalloc_tag {
  using word = simt::uint32_t;
  static constexpr word live = word{1} << 29;
  static constexpr unsigned piece_kind = 1, block_kind = 2;
  static constexpr unsigned most_usable = 127 * 4, most_distance = 1023 * 16;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr xmalloc_tag of_block(word check) { return {word{block_kind} << 30 | live | check}; }
  [[nodiscard]] GPUHEAP_HD static constexpr xmalloc_tag of_piece(unsigned distance, unsigned usable, word check) {
    return {word{piece_kind} << 30 | live | usable / 4 << 22 | distance / 16 << 12 | check};
  }
  // What a tag at the address `p` of the heap at `heap` ends in, and one other word in 4096.
  [[nodiscard]] GPUHEAP_HD static word check_of(simt::uintptr_t p, simt::uintptr_t heap) {
    return static_cast<word>((p ^ heap) >> 4) * 0x9e3779b1u >> 20;
  }

  [[nodiscard]] GPUHEAP_HD constexpr bool is_piece() const { return bits >> 30 == piece_kind; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_live() const { return (bits & live) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_valid(word check) const {
    return (bits & 0xfff) == check && (is_piece() || bits >> 30 == block_kind);
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned usable() const { return (bits >> 22 & 0x7f) * 4; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned distance() const { return (bits >> 12 & 0x3ff) * 16; }
};
static_assert(xmalloc_tag::of_piece(8432, 268, 0xfff).distance() == 8432 && xmalloc_tag::of_piece(8432, 268, 0xfff).usable() == 268 &&
              xmalloc_tag::of_piece(8432, 268, 0xfff).is_valid(0xfff) && !xmalloc_tag::of_piece(0, 268, 0xfff).is_valid(0xffe) &&
              xmalloc_tag::of_piece(0, 0, 0).is_piece() && xmalloc_tag::of_piece(0, 0, 0).is_live() &&
              !xmalloc_tag::of_block(1).is_piece() && !xmalloc_tag{}.is_valid(0));

// The 64 bits at the start of a block's header.
//
//   bit  0                                32      40              63
//        | distance from the superblock / 16 | index | class | 0 | 0 |      a block of a superblock
//        | payload's bytes                                       | 1 |      a block of its own from the backing
struct xmalloc_origin {
  using word = simt::uint64_t;
  static constexpr word direct = word{1} << 63;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr xmalloc_origin of_backing(simt::size_t bytes) { return {direct | bytes}; }
  [[nodiscard]] GPUHEAP_HD static constexpr xmalloc_origin of_superblock(unsigned size_class, unsigned index, simt::size_t distance) {
    return {word{size_class} << 40 | word{index} << 32 | distance / 16};
  }

  [[nodiscard]] GPUHEAP_HD constexpr bool is_direct() const { return (bits & direct) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::size_t bytes() const { return bits & ~direct; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> 40) & 0xff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned index() const { return static_cast<unsigned>(bits >> 32) & 0xff; }
  [[nodiscard]] GPUHEAP_HD constexpr simt::size_t distance() const { return simt::size_t{static_cast<simt::uint32_t>(bits)} * 16; }
};
static_assert(xmalloc_origin::of_superblock(4, 31, 253968).distance() == 253968 && xmalloc_origin::of_superblock(4, 31, 16).index() == 31 &&
              xmalloc_origin::of_superblock(4, 31, 16).size_class() == 4 && !xmalloc_origin::of_superblock(15, 31, 16).is_direct() &&
              xmalloc_origin::of_backing(simt::size_t{1} << 40).bytes() == simt::size_t{1} << 40);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::detail
