// Records which slots of a span are free: one bit for each slot, 1 = freed, and counts of the words and groups of slots that are entirely
// free.
//
//   word (64 bits) = {unlisted : 1, slots : 63}    slot i of a span is bit i % 63 of word i / 63
//   group          = 64 words (4032 slots), with a count of its full words, whose 63 bits are all set. The span's header (span_words.hpp)
//                  counts its full groups
//
// A slot that was never handed out has bit 0, as a live slot has. So a shard hands out slots that were never used without an access to a
// word. Bits of a span's last word that have no slot are set from the start, and words that a span lacks count as full in its last group.
// So a free need not know the span's length. The flag `unlisted` says that the span had no free slot in this word when it left the partial
// list. A free reads the flag in the result of its fetch_or, and lists the span again. One atomic sets the flag and reads that no slot is
// free, so no free comes in between.
//
// Counts. The free whose fetch_or completes a word adds 1 to its group. The take whose fetch_and breaks a full word subtracts 1. These
// changes of a word alternate, and a group counts as full from 64 on. So a group also becomes full and not full in turns, in whatever order
// the additions arrive. A header's count is the number of full groups, except for additions under way. Slots are taken only while the
// header says `active`, and no thread ends an active span. The takes are counted before the span becomes inactive. So if the count of an
// inactive span says that all groups are full, they are.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one span's words and group counts. Device, any thread.
struct slot_map {
  using word = simt::uint64_t;
  static constexpr unsigned slots_per_word = 63;
  static constexpr unsigned words_per_group = 64;
  static constexpr word unlisted = word{1} << 63;
  static constexpr word all_slots = unlisted - 1;

  word* words = nullptr;
  unsigned* groups = nullptr;
  unsigned group_stride = 1;

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned words_for(unsigned num_slots) {
    return (num_slots + slots_per_word - 1) / slots_per_word;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned groups_for(unsigned num_words) {
    return (num_words + words_per_group - 1) / words_per_group;
  }
  // The bits of word w that have a slot, in a span of num_slots.
  [[nodiscard]] GPUHEAP_HD static constexpr word slots_in(unsigned w, unsigned num_slots) {
    unsigned const before = w * slots_per_word;
    unsigned const here = num_slots <= before ? 0 : num_slots - before;
    return simt::low_bits(here < slots_per_word ? here : slots_per_word);
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> at(unsigned w) const { return simt::global_ref<word>{words[w]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> group(unsigned g) const {
    return simt::global_ref<unsigned>{groups[simt::size_t{g} * group_stride]};
  }

  // Prepares a cleared map for a span of num_slots slots, none of them handed out. Called by one thread, which owns the span and publishes
  // it later.
  GPUHEAP_FN void prepare(unsigned num_slots) const {
    unsigned const n = words_for(num_slots);
    // relaxed: published with the span.
    if (num_slots % slots_per_word != 0) at(n - 1).store(all_slots & ~slots_in(n - 1, num_slots), simt::relaxed);
    if (n % words_per_group != 0) group(n / words_per_group).store(words_per_group - n % words_per_group, simt::relaxed);
  }

  // Undoes prepare(). Called by one thread, which owns the span, and none of whose slots is claimed.
  GPUHEAP_FN void unprepare(unsigned num_slots) const {
    unsigned const n = words_for(num_slots);
    // relaxed: as in prepare().
    if (num_slots % slots_per_word != 0) at(n - 1).store(0, simt::relaxed);
    if (n % words_per_group != 0) group(n / words_per_group).store(0, simt::relaxed);
  }

  // The result of a change of a word's bits. `before`: the word before the change. `group_crossed`: give() made the word's group full, and
  // the caller must add 1 to the header's count; or take() made it no longer full, and the caller must subtract 1.
  struct change {
    word before = 0;
    bool group_crossed = false;
  };

  // Whether a fetch_or of `mask` on `before` made a word full.
  [[nodiscard]] GPUHEAP_HD static constexpr bool completes(word before, word mask) {
    return (before & all_slots) != all_slots && ((before | mask) & all_slots) == all_slots;
  }
  // Frees the slots `mask` of word w. Before the call, a fence must have released what the owners did to the slots.
  GPUHEAP_FN change give(unsigned w, word mask) const {
    // relay: passes the fences of this and earlier frees on to the thread that takes the bits or ends the span. Pairs with take_mask(), and
    // with mark_unlisted().
    word const before = at(w).fetch_or(mask, simt::relay);
    return {before, completes(before, mask) && count_full(w)};
  }
  // Adds n to the count of word w's group: 1 for word w, which became full, or n for words that the span no longer has. True: the group
  // became full.
  GPUHEAP_FN bool count_full(unsigned w, unsigned n = 1) const {
    unsigned const before = count_words(w / words_per_group, n);
    return before < words_per_group && before + n >= words_per_group;
  }
  // Adds n full words to the count of group g. Returns the count as it was.
  GPUHEAP_FN unsigned count_words(unsigned g, unsigned n) const {
    // relay: passes the frees of the word, and the change of the word whose result this thread has just used, on to the thread that finds
    // the span entirely free.
    simt::note_performed();
    return group(g).fetch_add(n, simt::relay);
  }

  // The count that group g has in a prepared span of num_slots slots, of which the first `claimed` were claimed and are all free again. It
  // is at least words_per_group if all of the group's slots were claimed.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned full_words_of(unsigned g, unsigned claimed, unsigned num_slots) {
    unsigned const before = g * words_per_group, full = claimed / slots_per_word;
    return (full > before ? full - before : 0) + absent_words(g, words_for(num_slots));
  }
  // The words that group g, in which a span of num_words words has a word or ends, lacks.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned absent_words(unsigned g, unsigned num_words) {
    unsigned const there = num_words - g * words_per_group;
    return there < words_per_group ? words_per_group - there : 0;
  }

  // Takes up to `wanted` free slots of word w of a span of num_slots slots. `got` receives their bits. A call that tries to take slots also
  // clears the word's unlisted flag. Only while the span is active.
  GPUHEAP_FN change take(unsigned w, unsigned num_slots, unsigned wanted, word& got) const {
    // relaxed: a guess at what the fetch_and will find.
    word const seen = at(w).load(simt::relaxed) & slots_in(w, num_slots);
    word const pick = simt::popcount(seen) > wanted ? seen & simt::low_bits(simt::nth_set_bit(seen, wanted)) : seen;
    got = 0;
    if (pick == 0) return {seen, false};
    return take_mask(w, pick, got);
  }
  // Returns the slot that the first of `wanted` lanes picks, counted from 0 among the `there` free slots of a word. The other lanes pick
  // the slots after it. `others` lanes with earlier claims on the word may not have taken their slots yet. The result leaves the first
  // `others` slots to them, if there are enough. A lane that picks a slot which another lane takes gets nothing.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned first_pick(unsigned there, unsigned wanted, unsigned others) {
    unsigned const room = there > wanted ? there - wanted : 0;
    if (others > room) others -= room + 1;
    return others > room ? 0 : others;
  }
  // Takes those slots of `pick` in word w that are free.
  GPUHEAP_FN change take_mask(unsigned w, word pick, word& got) const {
    // relay: comes after the fence of each slot's last owner, and before the accesses of the new owner. Pairs with give().
    word const before = at(w).fetch_and(~(pick | unlisted), simt::relay);
    got = before & pick;
    bool const broke = (before & all_slots) == all_slots && got != 0;
    return {before, broke && group(w / words_per_group).fetch_sub(1, simt::relay) == words_per_group};
  }

  // Sets the unlisted flag of word w in a span of num_slots slots. Returns the bits of the slots that were free at that moment. Only while
  // the span is active.
  GPUHEAP_FN word mark_unlisted(unsigned w, unsigned num_slots) const {
    // relay: a free that reads this flag sees that the span has left the list, because this thread has seen that. Pairs with give().
    return at(w).fetch_or(unlisted, simt::relay) & slots_in(w, num_slots);
  }

  // Returns the number of free slots in up to 4 words that are spread over a span of num_slots slots. `sampled` receives how many slots
  // these words have. `seed` chooses the words. The numbers are hints.
  GPUHEAP_FN unsigned sample(unsigned num_slots, unsigned seed, unsigned& sampled) const {
    unsigned const n = words_for(num_slots);
    unsigned const words_read = n < 4 ? n : 4;
    unsigned const step = n / words_read;
    unsigned const start = seed % step;
    unsigned found = 0;
    sampled = 0;
    // A loop of fixed length, which the compiler unrolls: the four loads are in flight together.
    for (unsigned i = 0; i < 4; ++i) {
      unsigned const w = start + i * step;
      if (i >= words_read) break;
      word const has = slots_in(w, num_slots);
      found += simt::popcount(at(w).load(simt::relaxed) & has);
      sampled += simt::popcount(has);
    }
    return found;
  }

  // Resets an active span of num_slots slots, of which the first `claimed` < num_slots were claimed and are all free again, to the state in
  // which none of its slots was handed out. The words and groups without a claimed slot are in that state already. Each of `lanes` lanes
  // calls, with its rank. The caller subtracts the groups before that of slot `claimed`, which are full, from the header's count.
  GPUHEAP_FN void reset(unsigned num_slots, unsigned claimed, unsigned rank, unsigned lanes) const {
    unsigned const last = claimed / slots_per_word, last_group = last / words_per_group;
    constexpr unsigned apart = simt::warp_lanes, in_flight = 8, piece = apart * in_flight;
    // A piece of the words has `in_flight` words for each of `apart` lanes. Each lane stores its words of a piece in one pass, at constant
    // distances, so that the pass has few instructions: the end of a kernel may wait for this loop. If there are fewer lanes, they take the
    // places of the other lanes in further passes. Place i is lane i % apart of piece i / apart.
    // relaxed, all: published with the span.
    GPUHEAP_NO_UNROLL
    for (unsigned i = rank; i < last / piece * apart; i += lanes) {
      word* const own = words + (i / apart * piece + i % apart);
      for (unsigned k = 0; k < in_flight; ++k) simt::global_ref<word>{own[k * apart]}.store(0, simt::relaxed);
    }
    // The rest is less than a piece.
    GPUHEAP_NO_UNROLL
    for (unsigned w = last / piece * piece + rank; w < last; w += lanes) at(w).store(0, simt::relaxed);
    // The word with the first unclaimed slot: the bits that have no slot are set.
    if (rank == 0) at(last).store(all_slots & ~slots_in(last, num_slots), simt::relaxed);
    unsigned const num_words = words_for(num_slots);
    GPUHEAP_NO_UNROLL
    for (unsigned g = rank; g <= last_group; g += lanes) group(g).store(absent_words(g, num_words), simt::relaxed);
  }

  // Clears the map of a span of num_slots slots, which the caller owns, for the next owner of its memory. Each of `lanes` lanes calls, with
  // its rank.
  GPUHEAP_FN void clear(unsigned num_slots, unsigned rank, unsigned lanes) const {
    unsigned const n = words_for(num_slots), g = groups_for(n);
    // relaxed: published by the release of the memory.
    GPUHEAP_NO_UNROLL
    for (unsigned w = rank; w < n; w += lanes) at(w).store(0, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (unsigned i = rank; i < g; i += lanes) group(i).store(0, simt::relaxed);
  }

  // Shortens the map of an active span from `from` to `to` slots; the slots from `claimed` on are unclaimed. Frees the slots claimed..to-1,
  // and clears the rest of the map for its next owner. Returns how many groups became full: the caller adds them to the header's count.
  // Called by one thread.
  GPUHEAP_FN unsigned split(unsigned from, unsigned to, unsigned claimed) const {
    unsigned const old_words = words_for(from), new_words = words_for(to);
    unsigned crossed = 0;
    if (old_words != new_words) {
      // Clears the bits and the count that prepare() wrote for the old end. relaxed: published when the memory is released, or never read.
      if (from % slots_per_word != 0) at(old_words - 1).store(0, simt::relaxed);
      unsigned const old_group = (old_words - 1) / words_per_group;
      bool const same_group = new_words != 0 && (new_words - 1) / words_per_group == old_group;
      if (!same_group && old_words % words_per_group != 0) group(old_group).store(0, simt::relaxed);
      if (same_group) {
        crossed += count_full(new_words - 1, old_words - new_words);
      } else if (new_words % words_per_group != 0) {
        crossed += count_full(new_words - 1, words_per_group - new_words % words_per_group);
      }
    }
    GPUHEAP_NO_UNROLL
    for (unsigned w = claimed / slots_per_word; w < new_words; ++w) {
      // `unset`: the bits of unclaimed slots, and those past the new end that are not set yet.
      word const live = claimed > w * slots_per_word ? simt::low_bits(claimed - w * slots_per_word) : 0;
      word const unset = all_slots & ~live;
      if (unset != 0) crossed += give(w, unset).group_crossed;
    }
    return crossed;
  }
};
static_assert(slot_map::full_words_of(0, 3906, 4096) == 62 && slot_map::full_words_of(1, 3906, 4096) == 62 &&
              slot_map::full_words_of(0, 4095, 4096) == 65 && slot_map::full_words_of(0, 100, 128) == 62 &&
              slot_map::full_words_of(15, 62500, 65536) == 32);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
