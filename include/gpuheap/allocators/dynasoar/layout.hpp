// The layout of a pool of DynaSOAr blocks, and the words of a block.
//
//   +0     state {layout, moves, census}
//   +256   trees over the blocks, a bit for each (bitmap_tree.hpp): free | active in class 0 | active in class 1 | ...
//          rows of bits: allocated to class 0 | allocated to class 1 | ...
//          words {free slots, tag}, 16 bytes for each block
//          data: blocks of block_bytes, end to end, aligned to 256
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/free_slots.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;
using structures::free_slots;

// Block numbers have 32 bits.
inline constexpr uint32_t no_block = ~uint32_t{0};
inline constexpr uint32_t most_blocks = uint32_t{1} << 31;

// The class of a block, and its number of slots: {class + 1 : 32, capacity : 32}. Only the thread that opens or closes the block changes
// it.
struct block_tag {
  uint64_t bits = 0;  // 0: the block is free

  [[nodiscard]] GPUHEAP_HD static constexpr block_tag of(unsigned c, unsigned capacity) { return {uint64_t{capacity} << 32 | (c + 1)}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_free() const { return bits == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_of(unsigned c) const { return static_cast<uint32_t>(bits) == c + 1; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned kind() const { return static_cast<uint32_t>(bits) - 1; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned capacity() const { return static_cast<unsigned>(bits >> 32); }
  // The word of the block's free slots while no slot is in use.
  [[nodiscard]] GPUHEAP_HD constexpr free_slots::word all() const { return simt::low_bits(capacity()); }
};
static_assert(block_tag::of(3, 64).kind() == 3 && block_tag::of(3, 64).is_of(3) && block_tag::of(0, 7).capacity() == 7 &&
              block_tag::of(0, 7).all() == 127 && !block_tag::of(0, 1).is_free() && !block_tag{}.is_of(0));

// The words of each block.
struct alignas(16) block_words {
  free_slots::word free;
  uint64_t tag;
};

// The result of a census. `free`, `allocated` and `active` count blocks.
struct census {
  uint64_t free = 0, allocated = 0, active = 0;
  uint64_t slots = 0, live = 0;  // slots of allocated blocks, and those of them that are not free
  uint64_t first_fault = 0;      // ~{block : 32, fault : 32} of the lowest block with a fault; 0 if no block has one
};

struct pool_state;

// The places of the pool's parts. A plain value for host and device.
struct pool_layout {
  static constexpr size_t state_bytes = 256;

  char* base = nullptr;
  char* data = nullptr;
  uint32_t num_blocks = 0;
  uint32_t num_classes = 0;
  uint32_t block_bytes = 0;

  [[nodiscard]] GPUHEAP_HD unsigned num_leaves() const { return bitmap_tree::leaves_for(num_blocks); }
  [[nodiscard]] GPUHEAP_HD pool_state* state() const { return reinterpret_cast<pool_state*>(base); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree tree(unsigned n) const {
    return bitmap_tree::over(words() + size_t{bitmap_tree::words_for(num_leaves(), 1)} * n, num_leaves(), 1);
  }
  [[nodiscard]] GPUHEAP_HD bitmap_tree free_blocks() const { return tree(0); }
  [[nodiscard]] GPUHEAP_HD bitmap_tree active(unsigned c) const { return tree(1 + c); }
  // The allocated blocks of class c, a bit each: a word for each 64 blocks.
  [[nodiscard]] GPUHEAP_HD uint64_t* allocated(unsigned c) const {
    return words() + size_t{bitmap_tree::words_for(num_leaves(), 1)} * (1 + num_classes) + size_t{num_leaves()} * c;
  }
  [[nodiscard]] GPUHEAP_HD block_words* blocks() const {
    return reinterpret_cast<block_words*>(base + blocks_at(num_leaves(), num_classes));
  }
  [[nodiscard]] GPUHEAP_HD char* block(uint32_t b) const { return data + size_t{b} * block_bytes; }
  [[nodiscard]] GPUHEAP_HD bool holds(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= data && byte < block(num_blocks);
  }
  [[nodiscard]] GPUHEAP_HD size_t metadata_bytes() const { return static_cast<size_t>(data - base); }

  // Bytes of a pool of n blocks.
  [[nodiscard]] GPUHEAP_HD static constexpr size_t bytes_for(uint32_t n, unsigned classes, unsigned block_bytes) {
    return data_at(n, classes) + size_t{n} * block_bytes;
  }
  // A pool with as many blocks as fit into `where`, which has at least bytes_for(1).
  [[nodiscard]] GPUHEAP_HD static pool_layout over(memory::region where, unsigned classes, unsigned block_bytes) {
    size_t most = where.bytes / block_bytes;
    if (most > most_blocks) most = most_blocks;
    auto n = static_cast<uint32_t>(most);
    // Ends: n falls, down to 1. The excess is at most the metadata's size, so there are few passes.
    while (n > 1 && bytes_for(n, classes, block_bytes) > where.bytes) {
      size_t const excess = bytes_for(n, classes, block_bytes) - where.bytes;
      size_t const fewer = simt::ceil_div(excess, size_t{block_bytes} * 2);
      n = fewer < n ? n - static_cast<uint32_t>(fewer) : 1;
    }
    auto* const base = static_cast<char*>(where.base);
    return {base, base + data_at(n, classes), n, classes, block_bytes};
  }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr size_t blocks_at(unsigned leaves, unsigned classes) {
    size_t const words = size_t{bitmap_tree::words_for(leaves, 1)} * (1 + classes) + size_t{leaves} * classes;
    return state_bytes + simt::round_up_pow2(words * 8, 16);
  }
  [[nodiscard]] GPUHEAP_HD static constexpr size_t data_at(uint32_t n, unsigned classes) {
    return simt::round_up_pow2(blocks_at(bitmap_tree::leaves_for(n), classes) + size_t{n} * sizeof(block_words), 256);
  }
  [[nodiscard]] GPUHEAP_HD uint64_t* words() const { return reinterpret_cast<uint64_t*>(base + state_bytes); }
};

// The state at the base. It contains the layout for functions that are not inlined, which get a pointer to it.
struct pool_state {
  pool_layout layout;
  structures::relocation_count::word moves = 0;
  census found{};
};
static_assert(sizeof(pool_state) <= pool_layout::state_bytes);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa
