// A block: a counter hands out its slices in order, and the block is reused when all of them have been freed.
//
//   word   bit 0     32          48      56     63
//          | count  | full words | class | mode |
//
//   count       slices that were requested from the block since it was opened; from num_slices() on the block has none left
//   full words  the number of words of `freed` in which every bit is set
//   mode        home: no thread has the block. open: it is divided into slices. whole: it is one piece of memory
//
// The bit of a slice in `freed` is set when the slice is freed, or when a thread gives up a slice that was not handed out. Each bit is set
// once while the block is open. The thread that sets the last bit of a word counts the word, and the block belongs to the thread that
// counts the last word.
#pragma once

#include <gpuheap/allocators/gallatin/layout.hpp>
#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// The state of a block.
enum class mode : unsigned { home, open, whole };

// The word, as a value. A word of zeros is a block that is home.
struct block_word {
  uint64_t bits = 0;

  static constexpr uint64_t one_full_word = uint64_t{1} << 32;
  [[nodiscard]] GPUHEAP_HD static constexpr block_word of(unsigned c, mode m) {
    return {uint64_t{static_cast<unsigned>(m)} << 56 | uint64_t{c} << 48};
  }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t count() const { return static_cast<uint32_t>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned full_words() const { return static_cast<unsigned>(bits >> 32) & 0xffff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> 48) & 0xff; }
  [[nodiscard]] GPUHEAP_HD constexpr mode state() const { return static_cast<mode>(bits >> 56); }
  // Whether the block is open, with slices of class c.
  [[nodiscard]] GPUHEAP_HD constexpr bool has_slices_of(unsigned c) const { return bits >> 48 == of(c, mode::open).bits >> 48; }
};

// A view of a block's words. Any thread.
struct block_state {
  uint64_t* word = nullptr;
  uint64_t* freed = nullptr;
  unsigned lg_slices = 0;

  [[nodiscard]] GPUHEAP_HD unsigned num_slices() const { return 1u << lg_slices; }
  [[nodiscard]] GPUHEAP_HD unsigned num_words() const { return lg_slices <= 6 ? 1 : 1u << (lg_slices - 6); }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> ref() const { return simt::global_ref<uint64_t>{*word}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> freed_word(unsigned i) const { return simt::global_ref<uint64_t>{freed[i]}; }
  // relaxed: the result is a guess, unless the caller owns a slice: then class and mode cannot change.
  [[nodiscard]] GPUHEAP_FN block_word look() const { return {ref().load(simt::relaxed)}; }

  // Takes the next n slices, or as many as are left. Returns the word from before, which says what was taken. The caller gives up the
  // slices that it does not want.
  [[nodiscard]] GPUHEAP_FN block_word take(unsigned n) const {
    // relay: orders the caller after the fences of the slices' last owners, through the thread that opened the block. Pairs with open().
    return {ref().fetch_add(n, simt::relay)};
  }
  // Divides a block that the caller has taken from its segment into slices of class c. Other threads find the block by the caller's next
  // release, or by a slot's word that they read while the block was in that slot earlier.
  // The first `taken` slices are the caller's.
  GPUHEAP_FN void open(unsigned c, unsigned taken) const {
    // relaxed: the word's release publishes them.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != num_words(); ++i) freed_word(i).store(0, simt::relaxed);
    // release: a thread that takes a slice is ordered after the slice's last owner, and sets the slice's bit after these zeros. Pairs with
    // take().
    ref().store(block_word::of(c, mode::open).bits + taken, simt::release);
  }
  // Makes a block that the caller has taken from its segment one piece of memory.
  GPUHEAP_FN void open_whole(unsigned c) const {
    // relaxed, both: a thread that still finds the block in a slot's old word sees only that it is not open. All other threads learn of the
    // block from the program, with the pointer.
    freed_word(0).store(0, simt::relaxed);
    ref().store(block_word::of(c, mode::whole).bits, simt::relaxed);
  }
  // Marks the block as home, before its segment gets it back. relaxed: published with the block's home bit.
  GPUHEAP_FN void close() const { ref().store(0, simt::relaxed); }

  // Frees the slices `mask` of freed word i, and returns the word from before. A slice whose bit was set already was freed before, not by
  // this call. If completes() says that the call has filled the word, the caller continues with count_word().
  [[nodiscard]] GPUHEAP_FN uint64_t give(unsigned i, uint64_t mask) const {
    // consume_release: releases the accesses of the slices' owners. Pairs with take(), through the thread that opens the block next.
    return freed_word(i).fetch_or(mask, simt::consume_release);
  }
  // Whether the word was not full before, and is full with the bits `mask`.
  [[nodiscard]] GPUHEAP_HD bool completes(uint64_t before, uint64_t mask, mode m) const {
    uint64_t const full = m == mode::whole ? 1 : simt::low_bits(num_slices());
    return (before | mask) == full && before != full;
  }
  // Counts n words as full. Returns true to the thread that counts the last word: the block then belongs to the caller.
  [[nodiscard]] GPUHEAP_FN bool count_word(mode m, unsigned n = 1) const {
    if (m == mode::whole) return true;
    // relay: comes after the fences of all threads that freed slices, since each word is counted after its last bit is set.
    return block_word{ref().fetch_add(n * block_word::one_full_word, simt::relay)}.full_words() + n == num_words();
  }
  // Frees the slices first .. end - 1, which the caller got from take() and has not used. Returns true if the block then belongs to the
  // caller.
  [[nodiscard]] GPUHEAP_FN bool give_up(unsigned first, unsigned end) const {
    unsigned counted = 0;
    // Ends: `first` rises to `end`.
    GPUHEAP_NO_UNROLL
    while (first != end) {
      unsigned const next = first / 64 * 64 + 64 < end ? first / 64 * 64 + 64 : end;
      uint64_t const mask = simt::low_bits(next - first) << (first % 64);
      counted += completes(give(first / 64, mask), mask, mode::open);
      first = next;
    }
    return counted != 0 && count_word(mode::open, counted);
  }
  // Takes all slices that are left, if the block is open, and gives them up. Sets c to the block's class. Returns true if the block then
  // belongs to the caller.
  [[nodiscard]] GPUHEAP_FN bool retire(unsigned& c) const {
    block_word const before = take(num_slices());
    c = before.size_class();
    return before.state() == mode::open && before.count() < num_slices() && give_up(before.count(), num_slices());
  }

  // Whether the block is open, no slice of it is in use, and some were never taken. A guess.
  [[nodiscard]] GPUHEAP_FN bool is_idle() const {
    block_word const seen = look();
    if (seen.state() != mode::open || seen.count() >= num_slices() || seen.full_words() != seen.count() / 64) return false;
    unsigned const rest = seen.count() % 64;
    return rest == 0 || freed_word(seen.count() / 64).load(simt::relaxed) == simt::low_bits(rest);  // relaxed: a guess
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
