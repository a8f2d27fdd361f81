// The places of the parts of a KMA heap, the blocks that a superblock can have, and the meaning of its words.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/free_bits.hpp>
#include <gpuheap/structures/hinted_bits.hpp>
#include <gpuheap/structures/ring_queue.hpp>
#include <gpuheap/structures/slab_word.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// Sizes. The defaults are the paper's where it gives values.
struct kma_config {
  unsigned superblock_bytes = 4096;  // a power of two
  unsigned smallest_bytes = 16;      // a power of two from 16 on; each class is twice as large as the one before
  unsigned heads_per_class = 32;     // the most superblocks from which a class hands out blocks at the same time; 1 in the paper
};

namespace kma_parts {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::slab_word;

// The kinds of superblocks in slab words. A superblock of class c has the kind c + 1. In a run of superblocks, the first has the kind
// run_head and each later one run_tail. While the run is not complete yet, each has the kind run_claim.
inline constexpr unsigned run_tail = slab_word::max_kind;
inline constexpr unsigned run_head = slab_word::max_kind - 1;
inline constexpr unsigned run_claim = slab_word::max_kind - 2;

// The number that no superblock has.
inline constexpr uint32_t no_superblock = ~uint32_t{0};

// A block's place.
struct place {
  uint32_t superblock = no_superblock;
  slab_word seen{};  // the word of the superblock
  unsigned block = 0;
  bool exact = false;  // whether a block or a run can begin at the pointer
};

// The result of a search: a superblock in which blocks are reserved for the caller, and its word before the reservation. If the superblock
// had fewer free blocks than were wanted, all of these are reserved. The reservations are numbered from before.fill() on; each number is
// also that of the block at which the owner of the reservation begins to search for a clear bit.
struct grant {
  uint32_t superblock = no_superblock;
  slab_word before{};
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return superblock == no_superblock; }
  // The grant as one value, for a shuffle.
  [[nodiscard]] GPUHEAP_HD constexpr uint64_t packed() const { return uint64_t{superblock} << 32 | before.bits; }
  [[nodiscard]] GPUHEAP_HD static constexpr grant unpacked(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), {static_cast<slab_word::word>(bits)}};
  }
};

// The layout. Trivially copyable: the view that kernels get contains a copy of it, and so does the heap's state.
template <kma_config Config, class Parts>
struct layout {
  using bits_type = typename Parts::bits;
  using blocks_type = typename Parts::blocks;
  using slab_type = typename Parts::slab;
  using queue_type = structures::ring_queue<uint32_t>;

  static constexpr unsigned superblock_bytes = Config.superblock_bytes;
  static constexpr unsigned most_blocks = superblock_bytes / Config.smallest_bytes;
  static constexpr unsigned num_segments = structures::hinted_bits::segments_for(most_blocks);  // words of bits for each superblock
  static constexpr unsigned num_classes = simt::highest_bit(most_blocks) + 1;
  static constexpr unsigned num_trees = num_classes - 1;  // no tree for the last class, whose superblocks are never partly in use
  static_assert(simt::popcount(Config.superblock_bytes) == 1 && simt::popcount(Config.smallest_bytes) == 1);
  static_assert(Config.smallest_bytes >= 16 && most_blocks >= 2 && most_blocks <= structures::hinted_bits::most);
  static_assert(Config.heads_per_class != 0 && num_classes < run_claim);

  char* superblocks = nullptr;
  slab_word::word* states = nullptr;  // a word for each superblock
  // A word for each superblock. If it has more than 32 blocks: a bit for each of its segments, set only if the segment is full
  // (hinted_bits.hpp). If it is the first superblock of a run: the length of the run.
  uint32_t* hints = nullptr;
  uint32_t* segments = nullptr;  // num_segments words for each superblock: a bit for each block in use
  uint32_t* queued = nullptr;    // a bit for each superblock: it is in the queue
  structures::bitmap_tree::word* trees = nullptr;
  char* queue_memory = nullptr;
  uint32_t num_superblocks = 0;
  uint32_t num_heads = 0;  // heads of each class that are used

  // ---- sizes of blocks

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_bytes(unsigned c) { return Config.smallest_bytes << c; }
  // The class of a request of 1 to superblock_bytes bytes.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_for(unsigned bytes) {
    return bytes <= Config.smallest_bytes ? 0 : simt::highest_bit(bytes - 1) + 1 - simt::highest_bit(Config.smallest_bytes);
  }
  static_assert(class_for(1) == 0 && class_for(Config.smallest_bytes) == 0 && class_for(Config.smallest_bytes + 1) == 1 &&
                class_for(superblock_bytes) == num_classes - 1 && class_bytes(num_classes - 1) == superblock_bytes);
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned capacity(unsigned c) { return most_blocks >> c; }
  [[nodiscard]] GPUHEAP_HD static constexpr bool is_of_class(slab_word word, unsigned c) { return word.kind() == c + 1; }
  // Whether a superblock is in use for the class and has a free block.
  [[nodiscard]] GPUHEAP_HD static constexpr bool has_room(slab_word word, unsigned c) {
    return is_of_class(word, c) && word.fill() < capacity(c) && !word.is_free();
  }

  // ---- places

  [[nodiscard]] GPUHEAP_FN slab_type state(uint32_t s) const {
    slab_type word;
    word.at = states + s;
    return word;
  }
  [[nodiscard]] GPUHEAP_HD char* superblock_at(uint32_t s) const { return superblocks + size_t{s} * superblock_bytes; }
  [[nodiscard]] GPUHEAP_FN bits_type few_blocks(uint32_t s, unsigned c) const {
    bits_type bits;
    bits.taken = segments + size_t{s} * num_segments;
    bits.count = capacity(c);
    return bits;
  }
  [[nodiscard]] GPUHEAP_FN blocks_type many_blocks(uint32_t s, unsigned c) const {
    blocks_type bits;
    bits.hints = hints + s;
    bits.segments = segments + size_t{s} * num_segments;
    bits.count = capacity(c);
    return bits;
  }
  [[nodiscard]] GPUHEAP_FN structures::bitmap_tree tree(unsigned c) const {
    unsigned const leaves = structures::bitmap_tree::leaves_for(num_superblocks);
    return structures::bitmap_tree::over(trees + size_t{c} * structures::bitmap_tree::words_for(leaves, 1), leaves, 1);
  }
  [[nodiscard]] GPUHEAP_HD queue_type queue() const { return {queue_memory, queue_cells(num_superblocks)}; }

  // Takes a block of superblock s, in which the caller has a reservation, and returns its address. The search begins at block `start`.
  [[nodiscard]] GPUHEAP_FN void* take_block(uint32_t s, unsigned c, unsigned start) const {
    unsigned block;
    if (capacity(c) > structures::free_bits::most) {
      block = many_blocks(s, c).claim(start);
    } else {
      auto const bits = few_blocks(s, c);
      // Ends: by the reservation, a bit for the caller is clear at any time. A search of all bits that finds none met takes and frees by
      // other threads. Lock-free.
      GPUHEAP_NO_UNROLL
      do {
        block = bits.claim(start);
      } while (block == structures::free_bits::none);
    }
    return superblock_at(s) + size_t{block} * class_bytes(c);
  }
  // Whether a thread owns the block.
  [[nodiscard]] GPUHEAP_FN bool has_owner(place at) const {
    constexpr unsigned most = structures::free_bits::most;
    unsigned const c = at.seen.kind() - 1;
    auto const bits = capacity(c) > most ? many_blocks(at.superblock, c).segment(at.block / most) : few_blocks(at.superblock, c);
    // relaxed: no other thread changes the bit of a block that the caller owns; for any other block the answer is a guess.
    return (bits.ref().load(simt::relaxed) >> at.block % most & 1) != 0;
  }
  // Clears the bit of a block. Returns false if it was clear already, so that no thread owned the block.
  [[nodiscard]] GPUHEAP_FN bool release_block(place at) const {
    unsigned const c = at.seen.kind() - 1;
    if (capacity(c) > structures::free_bits::most) return many_blocks(at.superblock, c).release(at.block);
    return (few_blocks(at.superblock, c).release(at.block) >> at.block & 1) != 0;
  }

  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t queue_cells(uint32_t superblocks) {
    return superblocks <= 2 ? 2 : uint32_t{1} << simt::ceil_log2(superblocks);
  }

#if GPUHEAP_HAS_HOST
  // ---- host: | state | states | hints | segments | queued | trees | queue | superblocks |, each part aligned to 256 bytes

  static constexpr size_t part_alignment = 256;
  // Unused bytes before the first block: a program that writes before the block's start hits them.
  static constexpr size_t guard_bytes = 64;
  static constexpr size_t most_superblocks = size_t{1} << 30;  // the queue has a place for each

  // The layout for `superblocks` superblocks behind a state of `state_bytes` at `base`. Sets `behind` to the end of the last part.
  [[nodiscard]] static layout over(simt::uintptr_t base, size_t state_bytes, size_t superblocks, simt::uintptr_t& behind) {
    layout at;
    at.num_superblocks = static_cast<uint32_t>(superblocks);
    size_t const heads = superblocks / (size_t{4} * num_classes);
    at.num_heads = heads == 0 ? 1 : heads < Config.heads_per_class ? static_cast<uint32_t>(heads) : Config.heads_per_class;
    simt::uintptr_t next = base;
    auto const part = [&next](size_t bytes) {
      auto const here = simt::round_up_pow2(next, part_alignment);
      next = here + bytes;
      return here;
    };
    unsigned const leaves = structures::bitmap_tree::leaves_for(superblocks);
    (void)part(state_bytes);
    at.states = reinterpret_cast<uint32_t*>(part(superblocks * sizeof(uint32_t)));
    at.hints = reinterpret_cast<uint32_t*>(part(superblocks * sizeof(uint32_t)));
    at.segments = reinterpret_cast<uint32_t*>(part(superblocks * num_segments * sizeof(uint32_t)));
    at.queued = reinterpret_cast<uint32_t*>(part(simt::ceil_div(superblocks, 32) * sizeof(uint32_t)));
    at.trees = reinterpret_cast<uint64_t*>(part(size_t{num_trees} * structures::bitmap_tree::words_for(leaves, 1) * sizeof(uint64_t)));
    at.queue_memory = reinterpret_cast<char*>(part(queue_type::bytes_for(queue_cells(at.num_superblocks)) + guard_bytes));
    at.superblocks = reinterpret_cast<char*>(part(superblocks * superblock_bytes));
    behind = next;
    return at;
  }
  // The bytes that `superblocks` superblocks and their parts take, at any base.
  [[nodiscard]] static size_t bytes_for(size_t superblocks, size_t state_bytes) {
    simt::uintptr_t behind = 0;
    (void)over(part_alignment, state_bytes, superblocks, behind);
    return behind;
  }
  // The number of superblocks that fit into `bytes`.
  [[nodiscard]] static size_t superblocks_within(size_t bytes, size_t state_bytes) {
    size_t fits = 0, too_many = bytes / superblock_bytes + 1;
    if (too_many > most_superblocks) too_many = most_superblocks + 1;
    // Ends: each pass halves the distance between the two.
    while (too_many - fits > 1) {
      size_t const middle = fits + (too_many - fits) / 2;
      (bytes_for(middle, state_bytes) <= bytes ? fits : too_many) = middle;
    }
    return fits;
  }
#endif
};

}  // namespace kma_parts
}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
