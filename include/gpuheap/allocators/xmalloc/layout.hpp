// The layout of xmalloc's memory, and its words: the tag before every payload, the origin in every block's header, the refill word of a
// class.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/structures/ring_queue.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Sizes and capacities; the defaults are the papers'.
struct xmalloc_config {
  unsigned num_classes = 5;
  unsigned smallest_block_bytes = 512;  // header included; each class is twice as large as the one before
  unsigned blocks_per_superblock = 32;  // 2 to 32
  unsigned lists_per_class = 4;         // a power of two
  unsigned list_capacity = 256;         // a power of two from 2 on
  unsigned merge_below = 256;           // requests of fewer bytes are merged
  // A wholly free superblock goes back to the backing while the second level of its class holds more than this percentage of the heap.
  unsigned spare_percent = 10;
};

namespace detail {

// The 32 bits right below a payload.
//
//   bit  0       12                           22                 29     30
//        | check | distance to the block / 16 | usable bytes / 4 | live | kind |
//
//   distance, usable   in a piece's tag only: the distance from the merged block's payload, and the bytes that may be used
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
  // The check field of a tag below the payload `p`, in the heap at `heap`. One in 4096 random words has the same field.
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

// The lanes that wait for blocks of a class, and the lanes that bring blocks.
//
//   bit  0                           32                48
//        | lanes that wait or refill | lanes that refill | searches that found nothing |
struct xmalloc_refill {
  using word = simt::uint64_t;
  static constexpr word waiter_one = 1, refiller_one = word{1} << 32, failure_one = word{1} << 48;
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned waiters(word w) { return static_cast<unsigned>(w); }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned refillers(word w) { return static_cast<unsigned>(w >> 32) & 0xffff; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned failures(word w) { return static_cast<unsigned>(w >> 48); }
};

template <xmalloc_config Config>
struct xmalloc_layout {
  using queue = structures::ring_queue<simt::uint64_t>;
  static constexpr unsigned num_classes = Config.num_classes, num_lists = Config.lists_per_class;
  static constexpr unsigned num_blocks = Config.blocks_per_superblock;
  static_assert(num_classes >= 1 && num_classes <= 16);
  static_assert(Config.smallest_block_bytes % 16 == 0 && Config.smallest_block_bytes >= 32);
  static_assert(num_blocks >= 2 && num_blocks <= 32, "a superblock's free blocks are a word of 32 bits");
  static_assert(num_blocks * Config.smallest_block_bytes >= 1024,
                "a superblock's place in the second level is small compared with the superblock");
  static_assert(simt::popcount(num_lists) == 1 && simt::popcount(Config.list_capacity) == 1 && Config.list_capacity >= 2);
  static_assert(Config.merge_below > 0 && simt::round_up_pow2(Config.merge_below + 3, 16) <= xmalloc_tag::most_usable &&
                    simt::round_up_pow2(Config.merge_below + 3, 16) * 31 <= xmalloc_tag::most_distance,
                "a piece's tag has 7 bits for its words and 10 for its distance");

  static constexpr simt::size_t header_bytes = 16;
  static constexpr simt::uint32_t all_blocks = static_cast<simt::uint32_t>(simt::low_bits(num_blocks));

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t block_bytes(unsigned c) { return simt::size_t{Config.smallest_block_bytes} << c; }
  // The bytes of a block's payload.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t class_bytes(unsigned c) { return block_bytes(c) - header_bytes; }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t superblock_bytes(unsigned c) { return header_bytes + num_blocks * block_bytes(c); }
  // The smallest class whose payload holds `bytes`; num_classes or more if there is none.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_for(simt::size_t bytes) {
    return simt::ceil_log2(simt::ceil_div(bytes + header_bytes, Config.smallest_block_bytes));
  }
  static_assert(class_for(1) == 0 && class_for(class_bytes(0)) == 0 && class_for(class_bytes(0) + 1) == 1 &&
                class_for(class_bytes(num_classes - 1)) == num_classes - 1 && class_for(class_bytes(num_classes - 1) + 1) == num_classes);

  // The allocator's own bytes begin with `state`, which has a class_state for each class.
  struct class_state {
    simt::uint64_t refill = 0;
    simt::uint32_t superblocks = 0;  // superblocks of the class
    // The number of superblocks in the second level whose blocks are all free. As a signed number it may be below zero for a moment:
    // another thread may take a superblock, and subtract 1, before the free that completed it has added 1.
    simt::uint32_t wholly_free = 0;
    simt::uint32_t second_capacity = 0;  // this member and the next two are constant
    simt::uint32_t spare = 0;            // if the second level holds more superblocks than this, wholly free ones go back
    simt::uint64_t second_at = 0;
  };
  static_assert(sizeof(class_state) == 32, "a sector of its own");
  struct state {
    // A relocation_count of blocks and superblocks that move between queues, superblocks and backing. The blocks that a refill brings to
    // the first level are not counted.
    simt::uint64_t moves = 0;
    simt::uint64_t own_bytes = 0;   // this member and the next are constant
    simt::uint64_t heap_bytes = 0;  // the most that the backing can have
    simt::uint64_t unused = 0;
    simt::uint32_t found[8] = {};  // results of verify()'s kernel
    class_state classes[num_classes];
  };

  static constexpr simt::size_t first_level_at = simt::round_up_pow2(sizeof(state), 128);
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t list_at(unsigned c, unsigned l) {
    return first_level_at + (c * num_lists + l) * queue::bytes_for(Config.list_capacity);
  }
  static constexpr simt::size_t second_level_at = first_level_at + num_classes * num_lists * queue::bytes_for(Config.list_capacity);
  // The number of places of the second level of class c in a heap of `region_bytes`: a power of two, at least 256, and larger than the
  // number of superblocks that fit.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint32_t second_capacity(simt::size_t region_bytes, unsigned c) {
    simt::size_t const most = region_bytes / superblock_bytes(c) + 1;
    simt::uint32_t const places = most >= simt::size_t{1} << 30 ? simt::uint32_t{1} << 30 : simt::uint32_t{1} << simt::ceil_log2(most);
    return places < 256 ? 256 : places;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t own_bytes_for(simt::size_t region_bytes) {
    simt::size_t at = second_level_at;
    for (unsigned c = 0; c < num_classes; ++c) at += queue::bytes_for(second_capacity(region_bytes, c));
    return simt::round_up_pow2(at, 256);
  }
};

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
