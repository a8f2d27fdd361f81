// A free that leaves no slot of an active span live resets the span: its next claim gets the first slot again.
//
// A launch that reaches the end of a span waits for a refill. If every launch of a program frees all its blocks, every launch would wait.
// So the last free resets the span, at a time when no thread waits, and the next launch finds the whole span.
//
//   shard word   {span, next} --compare-exchange--> {no span, being reset} --store--> {span, 0}
//
// Meanwhile the shard word says that its span will come back. A thread that wants a slot of the span, or wants to drain it, polls the word.
// So no search misses the span, and no relocation has to be open.
//
// A span is reset if half or more of its slots are claimed. If fewer are, the other half serves the same launch once more. A *successor*, a
// span that was published where another one had ended, is reset if an eighth or more is claimed. Its launch claimed slots of two spans, so
// the same launch needs more slots than it claimed in this one.
//
// A free learns from what its own atomics returned whether it may be the last: after it, all claimed slots are free in the word in which
// the unclaimed slots begin, or in that word's group, or it completed another group. Two such frees at the same time may each miss the
// other. The span is then not reset, which costs one refill.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The work of the free that may have been the last of its span. free does it if tuning::resets is set.
struct resets : frees {
  // A free asks whether it was the last of its span only if its slot lies at most so many slots before the first unclaimed one: the slots
  // of one word, or those of one group if the free completed a word. A free that completed a group asks in any case.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned near_end(bool completes_a_word) {
    return slot_map::slots_per_word * (completes_a_word ? slot_map::words_per_group : 1) - 1;
  }
  // Whether a free in word w of the span at `page` may have been the span's last. `tag`: a tag of the span. `claimed`: the shard word that
  // the free loaded. `after`: word w after the free. `full`: the count of the word's group after the free, or 0 if the free completed no
  // word.
  [[nodiscard]] GPUHEAP_HD static constexpr bool may_be_last(shard_word claimed, unsigned page, span_tag tag, unsigned w, uint64_t after,
                                                             unsigned full) {
    if (!claimed.mostly_claimed(page, tag.is_successor())) return false;
    if (full == slot_map::words_per_group) return true;
    if (full != 0) return full == slot_map::full_words_of(w / slot_map::words_per_group, claimed.next(), claimed.num_slots());
    unsigned const into = claimed.next() - w * slot_map::slots_per_word;
    return into < slot_map::slots_per_word && (~after & simt::low_bits(into)) == 0;
  }

  // Resets those spans that have no live slot, of the spans whose last slot the lanes of `here` may have freed. `claimed`: the shard word
  // of this lane's span, as the free loaded it, or 0 if the lane has no such span. `mine`: the words of that span. All lanes of `here`
  // call.
  //
  // Often the end of a kernel waits for this function alone, on an SM that has none of its code in its caches. So its loads are in flight
  // together, the free says where the span's words are, and the lanes of the warp share the stores.
  GPUHEAP_COLD static void reset_spans(lane_mask here, uint64_t claimed, active_span mine) {
    uint64_t const put_back = claimed != 0 ? take_if_all_free({claimed}, mine) : 0;
    // No slot of a span that is reset is claimed then. A span that had a live slot is put back as it was.
    bool const resets = put_back != 0 && shard_word{put_back}.next() == 0;
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, resets); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      // All lanes acquire what that lane acquired with its span.
      simt::sync_warp(here);
      shard_word const span{simt::shuffle(here, claimed, lane)};
      slot_map const theirs{reinterpret_cast<uint64_t*>(simt::shuffle(here, reinterpret_cast<uint64_t>(mine.map.words), lane)),
                            reinterpret_cast<unsigned*>(simt::shuffle(here, reinterpret_cast<uint64_t>(mine.map.groups), lane)),
                            simt::shuffle(here, mine.map.group_stride, lane)};
      warp_group const g{here};
      theirs.reset(span.num_slots(), span.next(), g.rank(), g.size());
    }
    // The barrier orders the other lanes' stores before the publication.
    simt::sync_warp(here);
    // release: publishes the span's bits and counts to the threads that claim. A claim since the exchange got no slot, so the store
    // overwrites none.
    if (put_back != 0) simt::global_ref<uint64_t>{*mine.shard}.store(put_back, simt::release);
  }

  // Whether the span of the shard word `claimed` has no live slot. Out of line, for the searches that drain spans.
  [[nodiscard]] GPUHEAP_COLD bool all_free(uint64_t claimed) {
    shard_word const w{claimed};
    return none_live(w, at.header(w.page()), at.slots_of(w.page()));
  }

 private:
  // Takes the span of `claimed` out of its shard, if no slot of the span is live. Returns the word that the caller must put back, after it
  // has reset the span if that word's `next` is 0; returns 0 if the span was not taken. One thread. The shard does not become idle, so its
  // class stays in the set of classes with active spans (see erase_if_inactive()).
  GPUHEAP_FN static uint64_t take_if_all_free(shard_word claimed, active_span const& span) {
    simt::global_ref<uint64_t> const header{*span.header};
    bool taken = false;
    // Looks twice: before the exchange, another thread may have reset the span, and others may have claimed up to the same slot. From the
    // exchange on, no thread claims slots of the span, and a free slot stays free. No fence is needed between the exchange and the second
    // look: the L2 serves its loads, and they depend on a branch on the exchange's result, so the hardware issues none before that result
    // has arrived.
    // Ends: the second pass returns.
    GPUHEAP_NO_UNROLL
    while (none_live(claimed, header, span.map)) {
      if (taken) {
        // relaxed: no other thread changes the header now, and the store in reset_spans() publishes it. The full groups of the span are
        // those before the one with the first unclaimed slot.
        header.fetch_sub(group_of_next(claimed) * span_header::full_one, simt::relaxed);
        return claimed.bits - claimed.next();
      }
      uint64_t expected = claimed.bits;
      // relay: acquires the claims, and the span as it was published.
      if (!simt::global_ref<uint64_t>{*span.shard}.compare_exchange(expected, shard_word::being_reset, simt::relay, simt::relaxed))
        return 0;
      taken = true;
    }
    return taken ? claimed.bits : 0;
  }
  // The group with the first unclaimed slot of the span `claimed`.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned group_of_next(shard_word claimed) {
    return claimed.next() / slot_map::slots_per_word / slot_map::words_per_group;
  }
  // Whether the span of the shard word `w`, with this header and this map, has no live slot.
  [[nodiscard]] GPUHEAP_FN static bool none_live(shard_word w, simt::global_ref<uint64_t> header, slot_map map) {
    unsigned const word = w.next() / slot_map::slots_per_word, group = group_of_next(w);
    // consume, all: these loads acquire the frees. Each free was counted in the header or in this group, or its bit is set in this word.
    span_header const h{header.load(simt::consume)};
    unsigned const full = map.group(group).load(simt::consume);
    uint64_t const bits = map.at(word).load(simt::consume);
    // `live`: the claimed slots of this word that are not free.
    uint64_t const live = ~bits & ((uint64_t{1} << (w.next() - word * slot_map::slots_per_word)) - 1);
    // The header's count says that the groups before this one are free. The groups after this one have no claimed slot.
    unsigned const expected = word % slot_map::words_per_group + slot_map::absent_words(group, slot_map::words_for(w.num_slots()));
    return (h.unlike_active(group) | (full ^ expected) | live) == 0;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
