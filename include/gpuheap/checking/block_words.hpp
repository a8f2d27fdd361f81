// The words that a checked heap keeps beside each block: their layout and their contents. Compiles under NVRTC.
//
//   | header: 16 bytes | the block: `bytes` | pad, to a multiple of 8 | guard: 8 bytes |
//   ^ base                ^ address                                     a block aligned to more than 16 lies further behind its base
//
// The header's first word has a 32-bit check of the header's other bits, the block's address and the heap's secret. Words that a program
// writes by accident pass as a header with a probability of 2^-32. So does a header of another heap or of another address.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// The sizes in bytes of the header before a block and of the guard after it.
inline constexpr simt::size_t header_bytes = 16;
inline constexpr simt::size_t guard_bytes = 8;
// The largest block, in bytes.
inline constexpr simt::uint64_t most_bytes = (simt::uint64_t{1} << 38) - 1;

// Access to a word of a block's header, pad or guard. If a program misuses the heap, another thread may access the word at the same time.
// Any thread.
using word_ref = simt::atomic_ref<simt::uint64_t>;

// Mixes the bits of a word, so that each bit of the result depends on all of them.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t mixed(simt::uint64_t x) {
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  x = (x ^ x >> 29) * 0x9e3779b97f4a7c15ull;
  return x ^ x >> 32;
}

#if GPUHEAP_HAS_HOST
// Makes a heap's secret: a number that is part of the check of its headers. No other heap of the process has the same one, so headers that
// an earlier heap left in the same memory are not valid in this one. Host.
[[nodiscard]] inline simt::uint64_t next_secret() {
  static simt::uint64_t heaps = 0;
  // relaxed: each call only needs a number of its own.
  return mixed(__atomic_add_fetch(&heaps, 1, __ATOMIC_RELAXED));
}
#endif

// The state of a block as its header records it.
enum class block_state : unsigned { none = 0, live = 1, freed = 2 };

// The contents of a block's header. `tag` is a place in the heap's table of tags.
struct block_facts {
  simt::uint64_t bytes = 0;
  unsigned tag = 0;
  unsigned block = 0, thread = 0;  // the thread that asked for the block
  unsigned lg_alignment = 4;

  // Bytes from the base of the inner allocator's block to the address of this block.
  [[nodiscard]] GPUHEAP_HD simt::size_t offset() const { return lg_alignment == 4 ? header_bytes : simt::size_t{1} << lg_alignment; }
  [[nodiscard]] GPUHEAP_HD simt::size_t padded_bytes() const { return (bytes + 7) & ~simt::size_t{7}; }
  // Bytes that the heap asks of the inner allocator.
  [[nodiscard]] GPUHEAP_HD simt::size_t whole_bytes() const { return offset() + padded_bytes() + guard_bytes; }
};

// first:  | check 32 | state 2 | tag 10 | thread 10 | lg alignment 5 | block, high 5 |
// second: | bytes 38 | block, low 26 |
struct header_words {
  simt::uint64_t first = 0, second = 0;

  [[nodiscard]] GPUHEAP_HD static header_words of(block_facts const& facts, block_state state, simt::uint64_t address,
                                                  simt::uint64_t secret) {
    header_words made;
    made.second = facts.bytes << 26 | (facts.block & 0x3ffffff);
    simt::uint64_t const low = simt::uint64_t{static_cast<unsigned>(state)} << 30 | simt::uint64_t{facts.tag & 1023} << 20 |
                               simt::uint64_t{facts.thread & 1023} << 10 | simt::uint64_t{facts.lg_alignment & 31} << 5 |
                               (facts.block >> 26 & 31);
    made.first = checked_word(low, made.second, address, secret);
    return made;
  }
  [[nodiscard]] GPUHEAP_HD bool is_valid(simt::uint64_t address, simt::uint64_t secret) const {
    return state() != block_state::none && second >> 26 != 0 && first == checked_word(first & 0xffffffff, second, address, secret);
  }
  [[nodiscard]] GPUHEAP_HD block_state state() const { return static_cast<block_state>(first >> 30 & 3); }
  // The first word of the same block's header with another state.
  [[nodiscard]] GPUHEAP_HD simt::uint64_t first_with(block_state state, simt::uint64_t address, simt::uint64_t secret) const {
    simt::uint64_t const low = (first & 0x3fffffff) | simt::uint64_t{static_cast<unsigned>(state)} << 30;
    return checked_word(low, second, address, secret);
  }
  [[nodiscard]] GPUHEAP_HD block_facts facts() const {
    block_facts f;
    f.bytes = second >> 26;
    f.tag = static_cast<unsigned>(first >> 20 & 1023);
    f.thread = static_cast<unsigned>(first >> 10 & 1023);
    f.lg_alignment = static_cast<unsigned>(first >> 5 & 31);
    f.block = static_cast<unsigned>((first & 31) << 26 | (second & 0x3ffffff));
    return f;
  }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t checked_word(simt::uint64_t low, simt::uint64_t second, simt::uint64_t address,
                                                                        simt::uint64_t secret) {
    simt::uint64_t h = (second ^ (address + secret)) * 0xd6e8feb86659fd93ull;
    h = ((h ^ h >> 29) ^ low) * 0x9e3779b97f4a7c15ull;
    return h >> 32 << 32 | low;
  }
};

// Changes each byte to one of 0x80..0xbf, so that a write of ASCII text, of zeros, of 0xff or of a small number always changes it.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t unlikely_bytes(simt::uint64_t x) {
  return (x & 0x3f3f3f3f3f3f3f3full) | 0x8080808080808080ull;
}

// The guard after a block that is live or in quarantine. A byte of the pad equals the guard's byte at the same address modulo 8.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t guard_of(simt::uint64_t address, simt::uint64_t secret) {
  return unlikely_bytes(mixed(address ^ secret));
}

// The thread that freed a block in quarantine, and the place in the heap's table of the free's tag, stored beside the block's place there.
// The word is not valid for a block with another address, except by chance, once in 2^13 times.
//
//   | check 13 | tag 10 | block 31 | thread 10 |
struct freed_by {
  simt::uint64_t word = 0;

  [[nodiscard]] GPUHEAP_HD static freed_by of(unsigned block, unsigned thread, unsigned tag, simt::uint64_t address,
                                              simt::uint64_t secret) {
    simt::uint64_t const low = simt::uint64_t{tag & 1023} << 41 | simt::uint64_t{block & 0x7fffffff} << 10 | (thread & 1023);
    return {check(low, address, secret) << 51 | low};
  }
  [[nodiscard]] GPUHEAP_HD bool is_valid(simt::uint64_t address, simt::uint64_t secret) const {
    return word >> 51 == check(word & 0x7ffffffffffffull, address, secret);
  }
  [[nodiscard]] GPUHEAP_HD unsigned tag() const { return static_cast<unsigned>(word >> 41 & 1023); }
  [[nodiscard]] GPUHEAP_HD unsigned block() const { return static_cast<unsigned>(word >> 10 & 0x7fffffff); }
  [[nodiscard]] GPUHEAP_HD unsigned thread() const { return static_cast<unsigned>(word & 1023); }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t check(simt::uint64_t low, simt::uint64_t address, simt::uint64_t secret) {
    return mixed(low * 0x9e3779b97f4a7c15ull ^ address ^ secret) >> 51;
  }
};

// freed_fill(): the value of each checked word of a block in quarantine. new_fill: the value of each word of a new block, with
// checked_options::fill.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t freed_fill(simt::uint64_t address, simt::uint64_t secret) {
  return unlikely_bytes((address ^ secret) * 0x9e3779b97f4a7c15ull);
}
inline constexpr simt::uint64_t new_fill = 0xcdcdcdcdcdcdcdcdull;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
