// Records which chunks of a piece of memory are taken, where blocks begin and how long they are. A block is 1, 2, 4 or 8 neighbouring
// chunks, aligned to its length.
//
//   taken    a bit per chunk, 1: the chunk is taken. A block's bits lie in one word, and one `or` claims them. A thread that finds one of
//            them set clears those that it has set itself
//   starts   four bits per chunk, 8 chunks a word: bits 0..2 at a live block's first chunk are log2(length) + 1, elsewhere 0; bit 3: a
//            block began at this chunk at some time
//
// claim() orders the new owner's accesses to a block after those of the threads that released its chunks. A block is unmarked before its
// chunks are released, so a thread that has claimed them finds bits 0..2 zero.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words that lie elsewhere and are zero at first. Any thread of the device may call.
struct chunk_map {
  using word = simt::uint64_t;
  static constexpr unsigned none = ~0u;

  word* taken = nullptr;
  simt::uint32_t* starts = nullptr;

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t taken_words(simt::size_t num_chunks) { return simt::ceil_div(num_chunks, 64); }
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t start_words(simt::size_t num_chunks) { return simt::ceil_div(num_chunks, 8); }

  // The places in a word for an aligned block of `count` (1, 2, 4, 8) chunks, all of them free: a bit is set at the first chunk of each
  // place.
  [[nodiscard]] GPUHEAP_HD static constexpr word places(word taken_bits, unsigned count) {
    word free = ~taken_bits;
    if (count == 1) return free;
    free &= free >> 1;
    if (count == 2) return free & 0x5555555555555555ull;
    free &= free >> 2;
    if (count == 4) return free & 0x1111111111111111ull;
    return free & free >> 4 & 0x0101010101010101ull;
  }

  // Claims the chunks first .. first + count - 1. False: another thread has one of them, and the caller gets none.
  GPUHEAP_FN bool claim(unsigned first, unsigned count) const {
    simt::global_ref<word> const bits{taken[first / 64]};
    word const mask = simt::low_bits(count) << (first % 64);
    // consume: pairs with release(); the new owner accesses only these chunks.
    word const ours = mask & ~bits.fetch_or(mask, simt::consume);
    if (ours == mask) return true;
    // relaxed: this thread has not accessed the chunks of these bits. Earlier releases still reach the next claim, because this change is a
    // read-modify-write.
    if (ours != 0) bits.fetch_and(~ours, simt::relaxed);
    return false;
  }

  // Claims `count` chunks at any free place among the first num_chunks, a multiple of `count`. The search begins at the word of chunk
  // `start` and wraps around. Returns the first chunk, or `none`: each place was taken when the search looked at it.
  [[nodiscard]] GPUHEAP_FN unsigned claim_any(unsigned start, unsigned count, unsigned num_chunks) const {
    unsigned const num_words = static_cast<unsigned>(taken_words(num_chunks));
    unsigned w = start / 64;
    // The last pass looks at the first word again: its chunks may have been released since the first pass.
    GPUHEAP_NO_UNROLL
    for (unsigned step = 0; step <= num_words; ++step) {
      // relaxed: a guess; claim() decides.
      word rest = places(simt::global_ref<word>{taken[w]}.load(simt::relaxed), count);
      if (w == num_words - 1) rest &= simt::low_bits(num_chunks - w * 64);
      GPUHEAP_NO_UNROLL
      for (; rest != 0; rest &= rest - 1) {
        unsigned const first = w * 64 + simt::lowest_bit(rest);
        if (claim(first, count)) return first;
      }
      w = w + 1 == num_words ? 0 : w + 1;
    }
    return none;
  }

  // Marks chunk `first` as the beginning of a block of `count` claimed chunks.
  GPUHEAP_FN void mark(unsigned first, unsigned count) const {
    // relaxed: a thread that frees the block gets its address from the block's owner, and so sees this mark. The last unmark() at this
    // chunk happened before the claim.
    starts_at(first).fetch_or((9u + simt::highest_bit(count)) << shift(first), simt::relaxed);
  }
  // The result of unmark().
  struct start {
    unsigned count = 0;      // chunks of the live block that began at the chunk; 0: no live block began there
    bool has_begun = false;  // a block began at the chunk at some time
  };
  // Removes the mark of the block at `first`. Of several calls for one block, exactly one gets the block's length. The caller of that one
  // releases the chunks.
  GPUHEAP_FN start unmark(unsigned first) const {
    // relaxed: the atomic alone decides who frees the block.
    unsigned const found = starts_at(first).fetch_and(~(7u << shift(first)), simt::relaxed) >> shift(first) & 15;
    return {length_of(found), (found & 8) != 0};
  }
  // The length in chunks of the live block that begins at `first`; 0 if none does.
  [[nodiscard]] GPUHEAP_FN unsigned count_at(unsigned first) const {
    // relaxed: if the block is live, the caller has its address from the owner, and so sees the mark. Otherwise any answer will do.
    return length_of(starts_at(first).load(simt::relaxed) >> shift(first) & 15);
  }
  // Releases the chunks of an unmarked block. Before the call, a fence must have released the owners' accesses to the block.
  GPUHEAP_FN void release(unsigned first, unsigned count) const {
    // relay: passes on what that fence released, to a thread that claims the chunks.
    simt::global_ref<word>{taken[first / 64]}.fetch_and(~(simt::low_bits(count) << (first % 64)), simt::relay);
  }

  // The length that the four bits of a chunk in `starts` encode.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned length_of(unsigned start_bits) {
    return (start_bits & 7) == 0 ? 0 : 1u << ((start_bits & 7) - 1);
  }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned shift(unsigned chunk) { return chunk % 8 * 4; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<simt::uint32_t> starts_at(unsigned chunk) const {
    return simt::global_ref<simt::uint32_t>{starts[chunk / 8]};
  }
};
static_assert(chunk_map::places(0, 1) == ~chunk_map::word{0} && chunk_map::places(0, 8) == 0x0101010101010101ull &&
              chunk_map::places(~chunk_map::word{0}, 1) == 0 && chunk_map::places(0b0110, 2) == 0x5555555555555550ull &&
              chunk_map::places(~chunk_map::word{0xf0}, 4) == 0x10 && chunk_map::places(~chunk_map::word{0x3c}, 4) == 0);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
