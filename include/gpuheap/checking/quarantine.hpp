// The quarantine of a checked heap: freed blocks stay in it for some time before their memory serves requests again. It consists of rings
// of words. In each ring, a freed block takes the place of the oldest one. Compiles under NVRTC.
#pragma once

#include <gpuheap/checking/block_words.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// @brief A block in quarantine: its address, and log2 of its alignment. The base of the block follows from these two, even if the block's
// header is damaged.
struct quarantined {
  simt::uint64_t word = 0;  // | lg alignment 5, from bit 57 | address |; 0: none

  [[nodiscard]] GPUHEAP_HD static quarantined of(simt::uint64_t address, unsigned lg_alignment) {
    return {address | simt::uint64_t{lg_alignment} << 57};
  }
  [[nodiscard]] GPUHEAP_HD simt::uint64_t address() const { return word & ((simt::uint64_t{1} << 57) - 1); }
  [[nodiscard]] GPUHEAP_HD unsigned lg_alignment() const { return static_cast<unsigned>(word >> 57 & 31); }
  [[nodiscard]] GPUHEAP_HD simt::uint64_t base() const {
    return address() - (lg_alignment() == 4 ? header_bytes : simt::size_t{1} << lg_alignment());
  }
};

// @brief The rings. A warp uses ring number global_warp() modulo the number of rings, and takes places for all of its lanes by one
// addition.
// @note A quarantine of 1024 or more blocks has 16 rings. A block stays until warps of its ring have freed as many later blocks as the ring
// has places. A smaller quarantine is one ring, in which a block stays until exactly `blocks` later ones were freed. checked<> empties the
// quarantine earlier if a request finds no memory.
class quarantine {
 public:
  static constexpr unsigned most_rings = 16;
  static constexpr unsigned least_blocks_of_rings = 1024;
  // The counters lie 1 KiB apart: all warps add to them, and one slice of the L2 cache would serve neighbouring counters one after the
  // other.
  static constexpr simt::size_t counter_stride = 1024;
  static constexpr simt::size_t counters_bytes = most_rings * counter_stride;

  quarantine() = default;
  // `memory`: bytes_for(blocks) of zeroed memory; `blocks`: a power of two, or 0 for none.
  GPUHEAP_HD quarantine(void* memory, unsigned blocks)
      : counters_{static_cast<char*>(memory)},
        places_{reinterpret_cast<simt::uint64_t*>(static_cast<char*>(memory) + counters_bytes)},
        freed_by_{places_ + blocks},
        blocks_{blocks},
        rings_{blocks < least_blocks_of_rings ? 1 : most_rings} {}

  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t bytes_for(unsigned blocks) {
    return counters_bytes + blocks * (2 * sizeof(simt::uint64_t));
  }
  [[nodiscard]] GPUHEAP_HD unsigned blocks() const { return blocks_; }

  // Puts a block in, and returns the block whose place it takes, if any. `by` says which thread freed the block, and receives the same for
  // the returned one. All lanes of `here` call; a lane whose `block` is empty puts nothing in and gets an empty one.
  [[nodiscard]] GPUHEAP_FN quarantined put(simt::lane_mask here, quarantined block, freed_by& by) const {
    simt::lane_mask const with = simt::ballot(here, block.word != 0);
    if (with == 0) return {};
    unsigned const ring = simt::global_warp() % rings_, size = blocks_ / rings_, leader = simt::lowest_bit(with);
    simt::uint64_t first = 0;
    // relaxed: the number only chooses places; the exchange passes blocks on.
    if (simt::lane_id() == leader) first = count_of(ring).fetch_add(simt::popcount(with), simt::relaxed);
    first = simt::shuffle(here, first, leader);
    if (block.word == 0) return {};
    simt::uint64_t const number = first + simt::popcount(with & ((simt::lane_mask{1} << simt::lane_id()) - 1));
    unsigned const place = static_cast<unsigned>(ring * size + number % size);
    word_ref const mine{freed_by_[place]};
    // relaxed, both: the word's check includes the address of its block, so it is not valid for another block.
    freed_by const theirs{mine.load(simt::relaxed)};
    mine.store(by.word, simt::relaxed);
    by = theirs;
    // release: accesses to the block by this thread, and by threads that passed the block to it, come before those of the thread that takes
    // the block out. relay: the exchange acquires the blocks of earlier puts, and passes them on; the taker accesses the block by the
    // address in the word.
    simt::fence(simt::release);
    return {word_ref{places_[place]}.exchange(block.word, simt::relay)};
  }
  // The thread that freed the block at `address`, if the block is in quarantine. Reads all places.
  [[nodiscard]] GPUHEAP_FN freed_by find_freed_by(simt::uint64_t address) const {
    GPUHEAP_NO_UNROLL
    for (unsigned place = 0; place < blocks_; ++place) {
      // relaxed, both: a guess; the caller checks the result with is_valid().
      if (quarantined{word_ref{places_[place]}.load(simt::relaxed)}.address() == address)
        return {word_ref{freed_by_[place]}.load(simt::relaxed)};
    }
    return {};
  }
  // Takes the block out of a place, if there is one. `by` receives the thread that freed it.
  [[nodiscard]] GPUHEAP_FN quarantined take(unsigned place, freed_by& by) const {
    // relaxed: a check that saves the exchange, and a guess that is_valid() checks. relay: as in put().
    if (word_ref{places_[place]}.load(simt::relaxed) == 0) return {};
    by = {word_ref{freed_by_[place]}.load(simt::relaxed)};
    return {word_ref{places_[place]}.exchange(0, simt::relay)};
  }
  // The number of blocks that were ever put in.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t puts() const {
    simt::uint64_t sum = 0;
    for (unsigned ring = 0; ring < rings_; ++ring) sum += count_of(ring).load(simt::relaxed);
    return sum;
  }
  // A word beside the counter of the first ring. It holds puts() + 1 from the last time that a thread emptied the quarantine; 0 before.
  [[nodiscard]] GPUHEAP_FN word_ref emptied_at() const { return word_ref{reinterpret_cast<simt::uint64_t*>(counters_)[1]}; }

 private:
  [[nodiscard]] GPUHEAP_FN word_ref count_of(unsigned ring) const {
    return word_ref{*reinterpret_cast<simt::uint64_t*>(counters_ + ring * counter_stride)};
  }

  char* counters_ = nullptr;
  simt::uint64_t* places_ = nullptr;
  simt::uint64_t* freed_by_ = nullptr;  // a freed_by word for each place
  unsigned blocks_ = 0, rings_ = 1;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
