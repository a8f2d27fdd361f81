// What begins a span anew before its end: a free that leaves no slot of it live.
//
// A launch that meets the end of a span waits for the next one. Where a program frees all that it has asked for, the free that comes last
// puts the shard back to the span's first slot, while nobody waits: the next launch finds all of the span.
//
//   shard word   {span, next} --compare-exchange--> {no span, beginning anew} --store--> {span, 0}
//
// Meanwhile the shard says that its span will come back: who wants a slot of it, or to take it back for another class, looks again. So
// nobody misses it, and no relocation need be open.
//
// Which free comes last, each sees from what its own atomic returned: it completed the word in which the undrawn slots begin, or the words
// claimed of that group, or a group. Two at once may each miss the other; then the span goes on as it is.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What the last free of a span's slots does. Called by free, where tuning::resets says so.
struct resets : frees {
  // Only a free of a slot so many or fewer ahead of the first one that was never handed out, or one that completes a group, may be the
  // last: of their word, or of their group by a free that completes a word.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned near_end(bool completes_a_word) {
    return slot_map::slots_per_word * (completes_a_word ? slot_map::words_per_group : 1) - 1;
  }
  // Whether a free in word w of the span at `page`, which is `after` by it, may have been the last of that span, of which `claimed` tells
  // what was handed out. `full`: what the group's count is by it; 0 if it completed no word.
  [[nodiscard]] GPUHEAP_HD static constexpr bool may_be_last(shard_word claimed, unsigned page, unsigned w, uint64_t after, unsigned full) {
    if (!claimed.mostly_claimed(page)) return false;
    if (full == slot_map::words_per_group) return true;
    if (full != 0) return full == slot_map::full_words_of(w / slot_map::words_per_group, claimed.next(), claimed.num_slots());
    unsigned const into = claimed.next() - w * slot_map::slots_per_word;
    return into < slot_map::slots_per_word && (~after & simt::low_bits(into)) == 0;
  }

  // Begins spans of which lanes of `here` may have freed the last slot anew, if no slot of them is live. `claimed`: such a span's shard
  // word, as the free found it; 0 names none. `tag`: of its memory. All lanes of `here` call, each with its own heap's words.
  //
  // Often a kernel's end waits for nothing else, on a processor that has none of this code at hand: so what can be is in flight together,
  // and the lanes act side by side.
  GPUHEAP_COLD void reset_spans(lane_mask here, uint64_t claimed, span_tag tag) {
    uint64_t const taken = claimed != 0 ? take_if_all_free(claimed, tag) : 0;
    // Ends: one pass per lane that has taken a span.
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, taken != 0); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      // What that lane acquired with its span, all have.
      simt::sync_warp(here);
      auto* const theirs = reinterpret_cast<resets*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      shard_word const span{simt::shuffle(here, taken, lane)};
      warp_group const g{here};
      unsigned const end = slot_map::groups_for(slot_map::words_for(span.next()));
      theirs->at.slots_of(span.page()).reset(span.num_slots(), end, g.rank(), g.size());
    }
    // The barrier orders the other lanes' stores before the publication.
    simt::sync_warp(here);
    if (taken != 0) publish_again(shard_word::of_span(shard_word{taken}.page(), shard_word{taken}.num_slots()).bits);
  }

 private:
  // Takes the span that `claimed` says out of its shard if all of its slots are free. One thread. Returns the span as a shard word that
  // says of how many slots the bits are to be renewed; or 0. The shard is never seen idle: its class stays among the bound ones
  // (erase_if_inactive).
  GPUHEAP_COLD uint64_t take_if_all_free(uint64_t claimed, span_tag tag) {
    uint64_t span = all_free(claimed), expected = claimed;
    // relay: acquires the claims, and the span as it was published.
    if (span == 0 ||
        !at.shard(tag.size_class(), tag.shard()).compare_exchange(expected, shard_word::being_reset, simt::relay, simt::relaxed))
      return 0;
    // Once more: before the exchange the span may have been another of the same looks. Now nobody claims, and what is free stays so.
    // No fence between: these loads, of the L2, stand behind a branch on the exchange's answer, and the hardware starts none before it.
    span = all_free(claimed);
    if (span == 0) {
      publish_again(claimed);
    } else {
      // relaxed: nobody changes it, and it is published with the span.
      at.header(shard_word{span}.page()).fetch_sub(full_groups({claimed}, {span}) * span_header::full_one, simt::relaxed);
    }
    return span;
  }
  // Puts the span back into its shard. One thread.
  GPUHEAP_COLD void publish_again(uint64_t span) {
    // Loaded again, while the stores before are under way, rather than kept: the chain of calls before needs all registers.
    span_tag const tag = at.tag_of(shard_word{span}.page()).tag;
    // release: publishes the span's bits and counts to those who claim. Nobody who claims meanwhile gets anything that this would
    // overwrite.
    at.shard(tag.size_class(), tag.shard()).store(span, simt::release);
  }
  // Groups that a shard hands out from the one on in which `claimed` ends.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned groups_left(shard_word claimed) {
    unsigned const group = claimed.next() / slot_map::slots_per_word / slot_map::words_per_group;
    return slot_map::groups_for(slot_map::words_for(claimed.num_slots())) - group;
  }
  // What the header of a `span` that all_free() returned counts.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned full_groups(shard_word claimed, shard_word span) {
    return slot_map::groups_for(slot_map::words_for(span.num_slots())) - groups_left(claimed);
  }
  // Whether all slots that a shard handed out, by its word `claimed`, and all others of its span, are free: the span as a shard word that
  // says of how many slots the bits are to be renewed; else 0. Out of line, as it is called twice: the second time the code is there.
  [[nodiscard]] GPUHEAP_COLD uint64_t all_free(uint64_t claimed) {
    shard_word const w{claimed};
    slot_map const map = at.slots_of(w.page());
    unsigned const word = w.next() / slot_map::slots_per_word, group = word / slot_map::words_per_group;
    // consume, all: acquire the frees, which were counted in the header, in the group, or stand in the word.
    span_header const h{at.header(w.page()).load(simt::consume)};
    unsigned const full = map.group(group).load(simt::consume);
    uint64_t const bits = map.at(word).load(simt::consume);
    unsigned const num_slots = at.span_slots(h), groups = slot_map::groups_for(slot_map::words_for(num_slots));
    // Of the groups that the shard hands out, those up to this one are free; and so are those behind, if there are any.
    if (!h.is_active() || h.full_groups() != full_groups(w, shard_word::of_span(0, num_slots))) return 0;
    if (full != slot_map::full_words_of(group, w.next(), w.num_slots())) return 0;
    if ((~bits & simt::low_bits(w.next() - word * slot_map::slots_per_word)) != 0) return 0;
    bool const to_its_end = slot_map::groups_for(slot_map::words_for(w.num_slots())) == groups;
    return shard_word::of_span(w.page(), num_slots).bits + (to_its_end ? w.next() : num_slots);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
