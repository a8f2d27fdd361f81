// A slot: the block that serves a multiprocessor's requests of one class, and the state of the attempt to fetch the next block.
//
//   word   bit 0         32     33       34           63
//          | block + 1 | busy | failed | generation |
//
//   block       0: none
//   busy        one thread is fetching a block for the slot. Only that thread changes the word meanwhile
//   failed      the last attempt found no block. The next thread that asks may begin another one
//   generation  the number of attempts to fetch a block, and of removals of idle blocks, so far. A thread that replaces the block compares
//               the whole word that it read. If the block has left the slot and come back meanwhile, the generation differs
//
// A block stays in its slot until a thread that wants slices of it finds it exhausted. By then the block may have gone back to its segment,
// and may have any other use. The atomic that takes slices returns the block's own word, which shows this.
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
  // The block's id; no_block if there is no block.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t block() const { return static_cast<uint32_t>(bits) - 1; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_block() const { return static_cast<uint32_t>(bits) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_busy() const { return (bits & busy_bit) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_failed() const { return (bits & failed_bit) != 0; }
  // 30 bits, which wrap around: only differences of generations matter.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t generation() const { return static_cast<uint32_t>(bits >> 34); }
  // The number of the first attempt that begins after this word was seen.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t next_attempt() const { return generation() + 1; }
  // Whether the attempt with this number, or a later one, has failed.
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
  // consume: the caller accesses the block next. Pairs with end().
  [[nodiscard]] GPUHEAP_FN slot_word look() const { return {ref().load(simt::consume)}; }

  // Begins to fetch a block for the slot, if its word still is `seen`, which is not busy. `kept`: the old block stays in the slot
  // meanwhile. Returns false if the word has changed.
  [[nodiscard]] GPUHEAP_FN bool begin(slot_word seen, bool kept) const {
    return replace(seen, slot_word::of(kept ? seen.block() : no_block, seen.generation() + 1, slot_word::busy_bit));
  }
  // Ends the attempt that begin(seen) began, and puts `block`, or no_block, into the slot.
  GPUHEAP_FN void end(slot_word seen, uint32_t block, bool failed) const {
    // release: publishes the words with which the block was opened. Pairs with look().
    ref().store(slot_word::of(block, seen.generation() + 1, failed ? slot_word::failed_bit : 0).bits, simt::release);
  }
  // Takes the block out of the slot, if its word still is `seen`, which is not busy. The new word records no failed attempt. Returns false
  // if the word has changed.
  [[nodiscard]] GPUHEAP_FN bool remove(slot_word seen) const { return replace(seen, slot_word::of(no_block, seen.generation() + 1, 0)); }

 private:
  [[nodiscard]] GPUHEAP_FN bool replace(slot_word seen, slot_word by) const {
    // relay: this thread has changed nothing of the block that others have to see. Later accesses to the block are ordered by the block's
    // own words.
    return ref().compare_exchange(seen.bits, by.bits, simt::relay, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
