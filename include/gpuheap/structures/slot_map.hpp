// Which slots of a run are free: one bit per slot, 1 = freed, and counts of what is entirely free.
//
//   word (64 bits) = {unlisted flag : 1, slots : 63}       slot i of a run is bit i % 63 of word i / 63
//   group          = 32 words (2016 slots) with a count of its full words (all slots freed); a run's header counts its full groups
//
// A slot that was never handed out has bit 0, like a live one: handing out fresh slots touches no word. The flag says that the run was
// found to have no free slot and left every list: a free learns it from the word that it changes anyway, and lists the run again. Setting
// the flag and seeing no free slot is one atomic, so no free can slip between the two.
//
// Counting: the free whose fetch_or completes a word adds 1 to the group; the take whose fetch_and breaks a full word subtracts 1. A word's
// transitions alternate, and a group counts as full at 32 or above: its crossings up and down alternate too, whatever order the additions
// land in, so a header's count of groups is the number of groups full, off only by additions still under way. Takes happen only while the
// run's header says `bound`, which forbids release, and are accounted before it is unbound: a count that says "all full" on a run that is
// not bound is therefore true.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Device, any thread. A view of one run's words and group counts.
struct slot_map {
  using word = simt::uint64_t;
  static constexpr unsigned slots_per_word = 63;
  static constexpr unsigned words_per_group = 32;
  static constexpr word unlisted = word{1} << 63;
  static constexpr word all_slots = unlisted - 1;

  word* words = nullptr;
  unsigned* groups = nullptr;
  unsigned group_stride = 1;
  unsigned num_slots = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned words_for(unsigned num_slots) {
    return (num_slots + slots_per_word - 1) / slots_per_word;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned groups_for(unsigned num_words) {
    return (num_words + words_per_group - 1) / words_per_group;
  }
  [[nodiscard]] GPUHEAP_HD unsigned num_words() const { return words_for(num_slots); }
  [[nodiscard]] GPUHEAP_HD unsigned num_groups() const { return groups_for(num_words()); }

  // What word w looks like when every slot of it is free.
  [[nodiscard]] GPUHEAP_HD word full(unsigned w) const {
    unsigned const before = w * slots_per_word;
    unsigned const here = num_slots - before < slots_per_word ? num_slots - before : slots_per_word;
    return simt::low_bits(here);
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<word> at(unsigned w) const { return simt::atomic_ref<word>{words[w]}; }

  // What a change of a word's bits did.
  struct change {
    word before = 0;
    bool group_crossed = false;  // a group became entirely free (give), or ceased to be (take): the caller owes the header 1
  };

  // Frees the slots `mask` of word w.
  GPUHEAP_FN change give(unsigned w, word mask) const {
    // release: the owner's accesses to the slots happen before those of whoever takes the bits. acquire: sees what set the unlisted flag.
    word const before = at(w).fetch_or(mask, simt::acq_rel);
    return {before, completes(w, before, mask) && count_full(w)};
  }
  // Whether a fetch_or of `mask` on `before` made word w full.
  [[nodiscard]] GPUHEAP_FN bool completes(unsigned w, word before, word mask) const {
    word const whole = full(w);
    return (before & whole) != whole && ((before | mask) & whole) == whole;
  }
  // Accounts for word w having become full; true if its group did.
  GPUHEAP_FN bool count_full(unsigned w) const {
    unsigned const g = w / words_per_group;
    // acq_rel: carries the word's release to whoever finds the run entirely free.
    return group(g).fetch_add(1, simt::acq_rel) + 1 == group_words(g);
  }

  // Takes up to `wanted` free slots of word w, and drops its unlisted flag. Only while the run is bound. `got` receives the slots.
  GPUHEAP_FN change take(unsigned w, unsigned wanted, word& got) const {
    // relaxed: only a guess at what the fetch_and will find.
    word const seen = at(w).load(simt::relaxed) & all_slots;
    word pick = seen;
    if (simt::popcount(seen) > wanted) {
      pick = 0;
      word rest = seen;
      // Ends: `wanted` steps, at most 32.
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < wanted; ++i) {
        pick |= rest & (~rest + 1);
        rest &= rest - 1;
      }
    }
    got = 0;
    if (pick == 0) return {seen, false};
    // acquire: pairs with the release in give(): the slot's last owner is done with it.
    word const before = at(w).fetch_and(~(pick | unlisted), simt::acq_rel);
    got = before & pick;
    bool const broke = (before & full(w)) == full(w) && got != 0;
    unsigned const g = w / words_per_group;
    return {before, broke && group(g).fetch_sub(1, simt::acq_rel) == group_words(g)};
  }

  // Marks word w as unlisted and returns its free slots as they were at that moment. Only while the run is bound.
  GPUHEAP_FN word mark_unlisted(unsigned w) const {
    // release: the free that reads this flag sees that the run has left the list. acquire: pairs with give().
    return at(w).fetch_or(unlisted, simt::acq_rel) & all_slots;
  }

  // Free slots among up to 4 words spread over the run, out of `sampled`. A hint.
  GPUHEAP_FN unsigned sample(unsigned seed, unsigned& sampled) const {
    unsigned const n = num_words();
    unsigned const looks = n < 4 ? n : 4;
    unsigned const step = n / looks;
    unsigned const start = seed % step;
    unsigned found = 0;
    sampled = 0;
    // Ends: `looks` passes.
    for (unsigned i = 0; i < looks; ++i) {
      unsigned const w = start + i * step;
      found += simt::popcount(at(w).load(simt::relaxed) & all_slots);
      sampled += simt::popcount(full(w));
    }
    return found;
  }

  // Makes the map ready for the run's next owner: lane `rank` of `lanes` does its share. The run must be claimed by the caller.
  GPUHEAP_FN void clear(unsigned rank, unsigned lanes) const {
    unsigned const n = num_words(), g = num_groups();
    // Ends: one pass per word. relaxed: published by the release that gives the segments back.
    GPUHEAP_NO_UNROLL
    for (unsigned w = rank; w < n; w += lanes) at(w).store(0, simt::relaxed);
    // Ends: one pass per group.
    GPUHEAP_NO_UNROLL
    for (unsigned i = rank; i < g; i += lanes) group(i).store(0, simt::relaxed);
  }

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<unsigned> group(unsigned g) const {
    return simt::atomic_ref<unsigned>{groups[simt::size_t{g} * group_stride]};
  }
  // Words of group g: at this count it is full.
  [[nodiscard]] GPUHEAP_HD unsigned group_words(unsigned g) const {
    unsigned const left = num_words() - g * words_per_group;
    return left < words_per_group ? left : words_per_group;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
