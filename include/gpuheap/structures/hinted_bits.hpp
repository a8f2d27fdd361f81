// A bitmap of up to 1024 things: segments of 32 bits (free_bits), and one word of hints. A hint is a bit for one segment, which tells
// searches that the segment is full.
//
// Invariant, whenever no call is under way: a segment with a hint is full. A full segment may lack its hint; a search then reads the
// segment in vain. So the hints are 0 when nothing is taken.
//
//   take:  a thread that finds a segment full sets its hint and reads the segment again: hints |= bit;  not full any more ? hints &= ~bit
//   give:  segment &= ~bit;  if it was full before: hints &= ~bit
// All changes of the word of hints are read-modify-writes that acquire and release (the giver's by relay, see clear_hint). If the giver's
// change comes last, the hint is clear. If the taker's `or` comes last, it has read from the giver's change, so the taker's second read
// sees the segment as the giver left it, or later.
//
// No thread takes a thing without a reservation. Callers ensure that the number of taken things plus that of unused reservations never
// exceeds `count` (slab_word does so).
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/free_bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words that lie elsewhere, the hints and the segments, which must all be 0 before the first call. Any thread.
struct hinted_bits {
  using word = free_bits::word;
  static constexpr unsigned most = free_bits::most * free_bits::most;

  word* hints = nullptr;
  word* segments = nullptr;
  unsigned count = 0;  // 1..1024

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned segments_for(unsigned count) {
    return (count + free_bits::most - 1) / free_bits::most;
  }
  [[nodiscard]] GPUHEAP_HD constexpr free_bits segment(unsigned s) const {
    unsigned const here = count - s * free_bits::most;
    return {segments + s, here < free_bits::most ? here : free_bits::most};
  }

  // Takes thing `start` (below `count`), or another free one, and returns it. The caller has a reservation.
  [[nodiscard]] GPUHEAP_FN unsigned claim(unsigned start) const {
    unsigned const s = start / free_bits::most;
    unsigned const bit = segment(s).claim(start % free_bits::most);
    return bit != free_bits::none ? s * free_bits::most + bit : search(*this, s);
  }

  // Gives thing i back. False: no thread had it, and nothing has changed. Before the call, a fence must have released the owner's accesses
  // to the thing.
  GPUHEAP_FN bool release(unsigned i) const {
    free_bits const bits = segment(i / free_bits::most);
    word const before = bits.release(i % free_bits::most);
    if ((before >> (i % free_bits::most) & 1) == 0) return false;
    filled_no_more(i, before);
    return true;
  }
  // Clears the hint of the segment of thing i if the segment was full. `before`: the segment's word before things were given back.
  GPUHEAP_FN void filled_no_more(unsigned i, word before) const {
    if (segment(i / free_bits::most).is_full(before)) clear_hint(i / free_bits::most);
  }

  // Sets the hint of segment s, which was seen full.
  GPUHEAP_FN void hint(unsigned s) const {
    simt::global_ref<word> const all{*hints};
    free_bits const bits = segment(s);
    // acq_rel, and acquire for the second look: see the head.
    all.fetch_or(word{1} << s, simt::acq_rel);
    if (!bits.is_full(bits.ref().load(simt::acquire))) all.fetch_and(~(word{1} << s), simt::acq_rel);
  }
  GPUHEAP_FN void clear_hint(unsigned s) const {
    // relay: passes on the AND in the segment, by which the caller cleared the thing's bit. The caller has used the result of that AND, so
    // all threads see it (note_performed(); property 3 of docs/memory-orders.md). In most calls the hint was clear, and no fence is needed.
    // If the hint was set, the fence orders the clearing of the hint before the caller's next atomic, by which other threads learn that the
    // thing is free.
    simt::note_performed();
    word const bit = word{1} << s, before = simt::global_ref<word>{*hints}.fetch_and(~bit, simt::relay);
    if ((before & bit) != 0) simt::fence(simt::release);
  }

  // Zeroes the segments, for things that no thread has. The hints must be 0 already. One thread calls this before it publishes the things.
  GPUHEAP_FN void clear_segments() const {
    // relaxed: published by the caller.
    GPUHEAP_NO_UNROLL
    for (unsigned s = 0; s != segments_for(count); ++s) simt::global_ref<word>{segments[s]}.store(0, simt::relaxed);
  }

 private:
  // Takes any free thing. The search begins after segment s, which is full.
  GPUHEAP_COLD static unsigned search(hinted_bits all, unsigned s) {
    unsigned const n = segments_for(all.count);
    // Ends: the reservation guarantees that at any time a bit is clear for the caller. While a caller searches all segments in vain, other
    // threads take and give back. Lock-free. If all segments have hints, the search ignores the hints.
    GPUHEAP_NO_UNROLL
    while (true) {
      all.hint(s);
      s = s + 1 == n ? 0 : s + 1;
      // relaxed: a guess, which the claim confirms.
      word const passed_over = simt::global_ref<word>{*all.hints}.load(simt::relaxed) | ~free_bits::bits_of(n);
      if (passed_over != ~word{0}) s = free_bits::next_clear(passed_over, s);
      unsigned const bit = all.segment(s).claim(0);
      if (bit != free_bits::none) return s * free_bits::most + bit;
    }
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
