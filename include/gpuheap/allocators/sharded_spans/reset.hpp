// A free that leaves no slot of an active span live resets the span: its next claim gets the first slot again.
//
// A launch that reaches the end of a span waits for a refill. A program that frees all that it asked for, launch by launch, would do so
// again and again. So the free that comes last resets the span, while nobody waits, and the next launch finds all of it.
//
//   shard word   {span, next} --compare-exchange--> {no span, being reset} --store--> {span, 0}
//
// Meanwhile the shard word says that its span will come back. A thread that wants a slot of it, or wants to drain it, polls. So no search
// misses the span, and no relocation is needed.
//
// A span is reset if half of it or more is claimed: otherwise the same launch again finds enough. A successor is reset from an eighth on.
// Its launch began in another span, so the same launch again needs more than it claimed here, and would meet the end of this one.
//
// A free learns from what its own atomics returned whether it may be the last: it completed the word in which the unclaimed slots begin, or
// all words of that group but those that are unclaimed, or a whole group. Of two such frees at the same time, each may miss the other's;
// then the span is not reset, which costs a refill and nothing else.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The work of the last free of a span's slots. free calls it where tuning::resets is on.
struct resets : frees {
  // How far before the first unclaimed slot a freed slot may lie for its free to be the last: within its word; or within its group, if the
  // free completed a word. A free that completed a group asks wherever its slot lies.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned near_end(bool completes_a_word) {
    return slot_map::slots_per_word * (completes_a_word ? slot_map::words_per_group : 1) - 1;
  }
  // Whether a free in word w of the span at `page`, of which `tag` is a tag, may have been its last. `claimed`: the shard word that the
  // free saw. `after`: the word after the free. `full`: the count of the word's group after the free, or 0 if the free completed no word.
  [[nodiscard]] GPUHEAP_HD static constexpr bool may_be_last(shard_word claimed, unsigned page, span_tag tag, unsigned w, uint64_t after,
                                                             unsigned full) {
    if (!claimed.mostly_claimed(page, tag.is_successor())) return false;
    if (full == slot_map::words_per_group) return true;
    if (full != 0) return full == slot_map::full_words_of(w / slot_map::words_per_group, claimed.next(), claimed.num_slots());
    unsigned const into = claimed.next() - w * slot_map::slots_per_word;
    return into < slot_map::slots_per_word && (~after & simt::low_bits(into)) == 0;
  }

  // Resets the spans of which lanes of `here` may have freed the last slot, where no slot is live. `claimed`: such a span's shard word, as
  // the free saw it, or 0. `tag`: of the span's memory. All lanes of `here` call, each with its own heap's words.
  //
  // Often a kernel's end waits for this alone, on a processor that has none of the code in its caches. So its loads are in flight together,
  // and the lanes work side by side.
  GPUHEAP_COLD void reset_spans(lane_mask here, uint64_t claimed, span_tag tag) {
    uint64_t const taken = claimed != 0 ? take_if_all_free(claimed, tag) : 0;
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, taken != 0); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      // All lanes acquire what that lane acquired with its span.
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
  // Takes the span of `claimed` out of its shard, if all of its slots are free. One thread. Returns the span as a shard word, whose `next`
  // is the number of slots of which the bits are to be reset; or 0. The shard never looks idle meanwhile, so its class stays among those
  // with active spans (see erase_if_inactive).
  GPUHEAP_COLD uint64_t take_if_all_free(uint64_t claimed, span_tag tag) {
    uint64_t span = all_free(claimed), expected = claimed;
    // relay: acquires the claims, and the span as it was published.
    if (span == 0 ||
        !at.shard(tag.size_class(), tag.shard()).compare_exchange(expected, shard_word::being_reset, simt::relay, simt::relaxed))
      return 0;
    // Again: before the exchange, the span may have been reset and claimed to the same slot. Now no thread claims, and what is free stays
    // free. No fence between: these loads are served by the L2 and stand behind a branch on the exchange's result, and the hardware starts
    // none before it knows that.
    span = all_free(claimed);
    if (span == 0) {
      publish_again(claimed);
    } else {
      // relaxed: no other thread changes it, and it is published with the span.
      at.header(shard_word{span}.page()).fetch_sub(full_groups({claimed}, {span}) * span_header::full_one, simt::relaxed);
    }
    return span;
  }
  // Puts the span back into its shard. One thread.
  GPUHEAP_COLD void publish_again(uint64_t span) {
    // Loaded again, while the stores above are under way, rather than kept: the chain of calls up to here needs all registers.
    span_tag const tag = at.tag_of(shard_word{span}.page()).tag;
    // release: publishes the span's bits and counts to those who claim. A claim meanwhile got no slot, so the store overwrites nothing.
    at.shard(tag.size_class(), tag.shard()).store(span, simt::release);
  }
  // Groups of the span from the one with the first unclaimed slot on.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned groups_left(shard_word claimed) {
    unsigned const group = claimed.next() / slot_map::slots_per_word / slot_map::words_per_group;
    return slot_map::groups_for(slot_map::words_for(claimed.num_slots())) - group;
  }
  // Full groups that the header of a `span` counts that all_free() returned.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned full_groups(shard_word claimed, shard_word span) {
    return slot_map::groups_for(slot_map::words_for(span.num_slots())) - groups_left(claimed);
  }
  // Whether all claimed slots of the shard word `claimed` are free, and so are all others of its span. Returns the span as a shard word,
  // whose `next` is the number of slots of which the bits are to be reset; else 0. Out of line: it is called twice, the second time from
  // the cache.
  [[nodiscard]] GPUHEAP_COLD uint64_t all_free(uint64_t claimed) {
    shard_word const w{claimed};
    slot_map const map = at.slots_of(w.page());
    unsigned const word = w.next() / slot_map::slots_per_word, group = word / slot_map::words_per_group;
    // consume, all: acquire the frees: each was counted in the header, or in this group, or stands in this word.
    span_header const h{at.header(w.page()).load(simt::consume)};
    unsigned const full = map.group(group).load(simt::consume);
    uint64_t const bits = map.at(word).load(simt::consume);
    unsigned const num_slots = at.span_slots(h), groups = slot_map::groups_for(slot_map::words_for(num_slots));
    // Groups before this one are free by the header's count. So are those after the ones that the shard hands out, if there are any.
    if (!h.is_active() || h.full_groups() != full_groups(w, shard_word::of_span(0, num_slots))) return 0;
    if (full != slot_map::full_words_of(group, w.next(), w.num_slots())) return 0;
    if ((~bits & simt::low_bits(w.next() - word * slot_map::slots_per_word)) != 0) return 0;
    bool const to_its_end = slot_map::groups_for(slot_map::words_for(w.num_slots())) == groups;
    return shard_word::of_span(w.page(), num_slots).bits + (to_its_end ? w.next() : num_slots);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
