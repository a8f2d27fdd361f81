// A slot: which block a multiprocessor's requests of one class are served from, and which thread fetches the next one.
//
//   word   bit 0         32     33       34           63
//          | block + 1 | busy | failed | generation |
//
//   block       0: none
//   busy        one thread is fetching a block for the slot. It alone changes the word then
//   failed      it found none. The next one to ask may try again
//   generation  which attempt to fetch it was, or is. A thread that replaces a block names the word that it read it from: a block that has
//               left the slot and come back is in a word with another generation
//
// A block stays in its slot until a thread that wants more of it finds it exhausted. By then it may have come home and be anything: its own
// word tells, in the same step in which slices are taken.
#pragma once

#include <gpuheap/allocators/gallatin/layout.hpp>
#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// The word, as a value. A word of zeros is an empty slot.
struct slot_word {
  uint64_t bits = 0;

  static constexpr uint64_t busy_bit = uint64_t{1} << 32, failed_bit = uint64_t{1} << 33;
  [[nodiscard]] GPUHEAP_HD static constexpr slot_word of(uint32_t block, uint32_t generation, uint64_t flags) {
    return {uint64_t{generation} << 34 | flags | static_cast<uint32_t>(block + 1)};
  }
  // no_block: none.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t block() const { return static_cast<uint32_t>(bits) - 1; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_block() const { return static_cast<uint32_t>(bits) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_busy() const { return (bits & busy_bit) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_failed() const { return (bits & failed_bit) != 0; }
  // 30 bits; differences are what counts.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t generation() const { return static_cast<uint32_t>(bits >> 34); }
  // The number of the first attempt that begins after this word was seen.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t next_attempt() const { return generation() + 1; }
  // Whether attempt `generation`, or one after it, has failed.
  [[nodiscard]] GPUHEAP_HD constexpr bool has_failed_since(uint32_t attempt) const {
    return has_failed() && static_cast<int>((generation() - attempt) << 2) >= 0;
  }
};
static_assert(!slot_word{}.has_block() && slot_word::of(no_block, 3, 0).block() == no_block && slot_word::of(7, 3, 0).block() == 7);
static_assert(slot_word::of(7, 5, slot_word::failed_bit).has_failed_since(5) &&
              !slot_word::of(7, 5, slot_word::failed_bit).has_failed_since(6));
static_assert(slot_word::of(7, 1, slot_word::failed_bit).has_failed_since((1u << 30) - 1));

// A view of the word. Any thread.
struct slot_state {
  uint64_t* word = nullptr;

  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> ref() const { return simt::global_ref<uint64_t>{*word}; }
  // consume: goes on to the block. Pairs with end().
  [[nodiscard]] GPUHEAP_FN slot_word look() const { return {ref().load(simt::consume)}; }

  // Begins to fetch a block for the slot, if its word still is `seen`, which is not busy. `kept`: the old block stays in it meanwhile.
  [[nodiscard]] GPUHEAP_FN bool begin(slot_word seen, bool kept) const {
    return replace(seen, slot_word::of(kept ? seen.block() : no_block, seen.generation() + 1, slot_word::busy_bit));
  }
  // Ends what begin(seen) began.
  GPUHEAP_FN void end(slot_word seen, uint32_t block, bool failed) const {
    // release: what the block was opened with. Pairs with look().
    ref().store(slot_word::of(block, seen.generation() + 1, failed ? slot_word::failed_bit : 0).bits, simt::release);
  }
  // Takes the block out, if the word still is `seen`, which is not busy. No attempt has failed then.
  [[nodiscard]] GPUHEAP_FN bool remove(slot_word seen) const { return replace(seen, slot_word::of(no_block, seen.generation() + 1, 0)); }

 private:
  [[nodiscard]] GPUHEAP_FN bool replace(slot_word seen, slot_word by) const {
    // relay: nothing was done to the block that others would have to see; what comes next goes by its words.
    return ref().compare_exchange(seen.bits, by.bits, simt::relay, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
