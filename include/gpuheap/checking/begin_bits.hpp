// A bitmap of the addresses at which live blocks of a hardened heap begin: one bit for each 16 bytes of its memory. Compiles under NVRTC.
//
// malloc sets the bit of a block, and exactly one free clears it. The place of a bit depends on the address alone. So a free that comes too
// late, when the memory has another size class or another owner, reads the bit of its own address and no other.
//
// A word has the bits of 1 KiB. Of each 64 words, word 8 i + k lies at place 8 k + i. So if a warp's blocks lie 1, 2, 4 or 8 KiB apart, its
// 32 atomics access 8 sectors of the L2 cache. With words in their natural order, blocks 8 KiB apart would need 32 sectors.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// Device, any thread. A view.
class begin_bits {
 public:
  using word = simt::uint64_t;
  static constexpr unsigned lg_granule = 4, lg_word = 10;                 // log2 of the bytes of memory for a bit, and for a word
  static constexpr simt::size_t row_bytes = simt::size_t{64} << lg_word;  // bytes of memory for a row of 64 words (512 bytes of bits)

  begin_bits() = default;
  // `words`: zeroed memory of bytes_for(n) bytes, if the heap's memory is the n bytes from `first` on. `first` is aligned to 16.
  GPUHEAP_HD begin_bits(word* words, simt::uint64_t first) : words_{words}, first_{first} {}

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(simt::size_t bytes) {
    return (bytes + row_bytes - 1) / row_bytes * 64 * sizeof(word);
  }

  // Records that a block begins at `address`, for each lane of `here` whose `address` is not 0. All lanes of `here` call.
  GPUHEAP_FN void add(simt::lane_mask here, simt::uint64_t address) const {
    share const mine = share_out(here, address);
    // relaxed: by the program's order, a free of a lane's block comes after the lane's call. If another lane's atomic sets the bit, the
    // barrier below puts this atomic before the end of the call.
    if (mine.bits != 0) word_of(address).fetch_or(mine.bits, simt::relaxed);
    simt::sync_warp(here);
  }
  // Clears the bit of this lane's `address`, and returns whether it was set; false if `address` is 0. Of all threads that take one block,
  // exactly one gets true. All lanes of `here` call.
  [[nodiscard]] GPUHEAP_FN bool take(simt::lane_mask here, simt::uint64_t address) const {
    share const mine = share_out(here, address);
    // A leader clears bits for other lanes: their earlier accesses come before its atomic.
    simt::sync_warp(here);
    word before = 0;
    // relaxed: exactly one of several takes of a bit finds it set, in whatever order. The inner free and the inner malloc that hands
    // the memory out again are ordered, so the accesses to the block, and this take, come before the next owner's add(). If another lane's
    // atomic clears this lane's bit, the barrier below puts that atomic before this lane's inner free.
    if (mine.bits != 0) before = word_of(address).fetch_and(~mine.bits, simt::relaxed);
    before = simt::shuffle(here, before, mine.leader);
    simt::sync_warp(here);
    return address != 0 && (before >> bit_of(address) & 1) != 0;
  }
  // take() and add() for this lane alone.
  [[nodiscard]] GPUHEAP_FN bool take_alone(simt::uint64_t address) const {
    // relaxed: as in take().
    return (word_of(address).fetch_and(~(word{1} << bit_of(address)), simt::relaxed) >> bit_of(address) & 1) != 0;
  }
  GPUHEAP_FN void add_alone(simt::uint64_t address) const {
    word_of(address).fetch_or(word{1} << bit_of(address), simt::relaxed);  // relaxed: as in add()
  }
  // Whether a block begins at `address`.
  [[nodiscard]] GPUHEAP_FN bool has(simt::uint64_t address) const {
    // relaxed: whatever the memory order, another thread may free the block right after the load.
    return address % 16 == 0 && (word_of(address).load(simt::relaxed) >> bit_of(address) & 1) != 0;
  }
  // The address at which the last block at or before `address` begins, if the block's bit lies in the word of `address` or in one of the 63
  // words before it; else 0.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t last_until(simt::uint64_t address) const {
    simt::uint64_t at = address;
    GPUHEAP_NO_UNROLL
    for (unsigned look = 0; look < 64; ++look) {
      // relaxed: used only to describe a wrong free.
      word const seen = word_of(at).load(simt::relaxed) & simt::low_bits(bit_of(at) + 1);
      simt::uint64_t const row = at - ((at - first_) & ((simt::uint64_t{1} << lg_word) - 1));
      if (seen != 0) return row + (simt::uint64_t{simt::highest_bit(seen)} << lg_granule);
      if (row == first_) break;
      at = row - 1;
    }
    return 0;
  }

  // The place at which word `number` lies. Within a row, places are in another order than numbers.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t place_of(simt::uint64_t number) {
    return (number & ~simt::uint64_t{63}) | (number & 7) << 3 | (number >> 3 & 7);
  }
  // A word with bit 0 and each multiple of `distance` (> 0) set.
  [[nodiscard]] GPUHEAP_HD static constexpr word every(unsigned distance) {
    word bits = 1;
    for (unsigned far = distance; far < 64; far *= 2) bits |= bits << far;
    return bits;
  }

 private:
  // `bits`: the bits that this lane's atomic changes; none if another lane's atomic changes this lane's bit. `leader`: the lane whose
  // atomic changes it.
  struct share {
    word bits = 0;
    unsigned leader = 0;
  };

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> word_of(simt::uint64_t address) const {
    return simt::global_ref<word>{words_[place_of((address - first_) >> lg_word)]};
  }
  [[nodiscard]] GPUHEAP_FN unsigned bit_of(simt::uint64_t address) const {
    return static_cast<unsigned>((address - first_) >> lg_granule & 63);
  }

  // Usually the blocks of a warp were handed out together, and lie at equal distances. One atomic then changes the bits of all lanes that
  // are in the same word. In this case all lanes have the same heap, since the blocks of two heaps lie further apart than the memory of one
  // word.
  [[nodiscard]] GPUHEAP_FN share share_out(simt::lane_mask here, simt::uint64_t address) const {
    unsigned const lane = simt::lane_id(), bit = bit_of(address);
    share const alone{address != 0 ? word{1} << bit : 0, lane};
    if ((here & (here - 1)) == 0) return alone;
    simt::lane_mask const with = simt::ballot(here, address != 0);
    if ((with & (with - 1)) == 0) return alone;
    // `gapless & with` is 0 if the lanes with a block follow one another without a gap.
    unsigned const first = simt::lowest_bit(with), rank = lane - first, count = simt::popcount(with);
    simt::lane_mask const gapless = with + (with & (0 - with));
    simt::uint64_t const a0 = simt::shuffle(here, address, first);
    simt::uint64_t const distance = simt::shuffle(here, address, simt::lowest_bit(with & (with - 1))) - a0;
    constexpr simt::uint64_t most = simt::uint64_t{1} << (lg_word - 1);
    bool const in_row = address == 0 || address == a0 + rank * distance;
    bool const row = distance != 0 && distance <= most && distance % 16 == 0 && (gapless & with) == 0;
    if (!simt::all_of(here, in_row && row)) return alone;
    if (address == 0) return {0, lane};
    unsigned const step = static_cast<unsigned>(distance >> lg_granule);
    word const steps = every(step);
    // `before`: how many of the lanes before this one have their bits in the same word.
    unsigned const by_room = simt::popcount(steps & simt::low_bits(bit + 1)) - 1, before = by_room < rank ? by_room : rank;
    if (before != 0) return {0, lane - before};
    return {(steps & simt::low_bits((count - rank) * step)) << bit, lane};
  }

  word* words_ = nullptr;
  simt::uint64_t first_ = 0;
};
static_assert(begin_bits::every(1) == ~simt::uint64_t{0} && begin_bits::every(16) == 0x0001000100010001 &&
              begin_bits::every(3) == 0x9249249249249249 && begin_bits::every(32) == 0x0000000100000001);
static_assert(begin_bits::place_of(0) == 0 && begin_bits::place_of(1) == 8 && begin_bits::place_of(8) == 1 &&
              begin_bits::place_of(63) == 63 && begin_bits::place_of(64 + 10) == 64 + 17);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
