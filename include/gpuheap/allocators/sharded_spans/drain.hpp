// Draining: a search takes the unclaimed slots away from shards of other classes.
//
//   shard word   {span, next} --compare-exchange--> idle
//
// One compare-exchange takes a span that has room from its shard: no claim has reached the slots from `next` on, and none will. A new span
// is then split: the units without a claimed slot are released, and the unclaimed slots of the other units are marked as free. In a reused
// span, the claims that no thread made are accounted as over. From the exchange until the span is listed or released, a relocation is open.
#pragma once

#include <gpuheap/allocators/sharded_spans/refill.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// A search's work on the shards of other classes.
template <class Named>
struct drains : refills<Named> {
  using spans::active_classes;
  using spans::at;
  using spans::relocations;

  // Drains shard k of class c if that gains memory: its span has whole units that no claim has reached, or has no live slot. One thread. If
  // it drained the shard, returns the shard word from before, and a relocation is open: the caller finishes the drained span and ends the
  // relocation. Otherwise returns a word without a span: the shard word if the span is being reset, so that the caller looks again; else 0.
  GPUHEAP_COLD uint64_t drain(unsigned c, unsigned k) {
    uint64_t seen = at.shard(c, k).load(simt::consume);
    // Ends: an exchange fails because other threads claimed slots, of which a span has a bounded number, or because another thread replaced
    // the span, which is that thread's progress.
    GPUHEAP_NO_UNROLL
    while (shard_word{seen}.has_room()) {
      shard_word const w{seen};
      // relaxed: a guess. The exchange decides.
      span_header const h{at.header(w.page()).load(simt::relaxed)};
      if ((w.is_reused() || units_kept(w, h, c) == h.length()) && !nothing_live(w)) return 0;
      relocations().begin();
      // Only a shard with room may be drained: a shard past its end belongs to the thread that refills it. consume_release: as in
      // install().
      if (at.shard(c, k).compare_exchange(seen, 0, simt::consume_release, simt::consume)) return w.bits;
      relocations().end();
    }
    return shard_word{seen}.is_being_reset() ? seen : 0;
  }

  // Whether no slot of the span in w is live: in a new span all claimed slots are free, in a reused span all slots are. A hint.
  [[nodiscard]] GPUHEAP_FN bool nothing_live(shard_word w) {
    slot_map const map = at.slots_of(w.page());
    // relaxed: a guess.
    unsigned const claimed = w.is_reused() ? at.span_slots(span_header{at.header(w.page()).load(simt::relaxed)}) : w.next();
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < slot_map::words_for(claimed); ++i) {
      uint64_t const whole = slot_map::slots_in(i, claimed);
      if ((map.at(i).load(simt::relaxed) & whole) != whole) return false;
    }
    return true;
  }

  // Units of the span in w, counted from its first one, up to the last that may have a claimed slot: at least one.
  [[nodiscard]] GPUHEAP_FN unsigned units_kept(shard_word w, span_header h, unsigned c) {
    if (w.num_slots() != at.span_slots(h)) return h.length();
    unsigned const claimed = w.next() == 0 ? 1 : w.next();
    return at.units_for(c, claimed, h.of_segments());
  }

  // Splits a new span that was drained. The span keeps its units with claimed slots, the other units are released, and the unclaimed slots
  // of the kept units are marked as free. One thread, during a relocation.
  GPUHEAP_COLD void split(uint64_t drained_bits, unsigned c) {
    shard_word const w{drained_bits};
    unsigned const page = w.page();
    // relaxed: this thread alone holds the active span, so no other changes its class and length.
    span_header const h{at.header(page).load(simt::relaxed)};
    unsigned const length = h.length(), kept = units_kept(w, h, c);
    unsigned const to = kept == length ? w.num_slots() : at.span_slots(c, kept, h.of_segments());
    // relay: a free that counts later finds the new length in the header. The span is still active, so nobody ends it.
    if (kept != length) at.header(page).fetch_sub((length - kept) * span_header::length_one, simt::relay);
    unsigned const crossed = at.slots_of(page).split(w.num_slots(), to, w.next());
    if (crossed != 0) at.header(page).fetch_add(crossed * span_header::full_one, simt::relay);
    if (kept == length) return;
    this->write_tags(page, h.of_segments(), span_tag::of_slots(c, kept, 0, false), kept);
    this->clear_tags(page, h.of_segments(), kept, length, 1);
    unsigned const first = page + (h.of_segments() ? kept << at.lg_pages : kept);
    unsigned const due = this->release_memory(first, length - kept, h.of_segments(), c);
    if (due != segment_map::none) this->rejoin(due);
  }

  // Whether a shard of class c has a span. A span that is being reset counts, since it leaves its shard only for a moment. A shard that is
  // being refilled does not count: the thread that refills it adds the class when the span is there, and has a relocation open until then.
  [[nodiscard]] GPUHEAP_FN bool holds_a_span(unsigned c) {
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k < at.num_shards(); ++k) {
      if (shard_word{at.shard(c, k).load(simt::acquire)}.holds_a_span()) return true;
    }
    return false;
  }
  // Erases class c from the set of classes with active spans, if none of its shards has a span. One thread.
  GPUHEAP_COLD void erase_if_inactive(unsigned c) {
    // No relocation is opened if the class is erased already, or would be added again at once. Otherwise many threads that search at the
    // same time would cross each other's searches.
    if (!active_classes().has(c) || holds_a_span(c)) return;
    relocations().begin();
    active_classes().erase(c);
    if (holds_a_span(c)) active_classes().add(c);
    relocations().end();
  }

  // Drains the shards of all classes but `c`: each lane drains some of them. All lanes of the group `mask` call. Returns whether memory was
  // gained, or a span is being reset. In the second case the group shall search again: the thread that resets the span waits for nobody.
  GPUHEAP_COLD bool reclaim(lane_mask mask, unsigned c) {
    warp_group const g{mask};
    bool any = false;
    uint64_t const own = c < size_classes::count ? uint64_t{1} << c : 0;
    GPUHEAP_NO_UNROLL
    for (uint64_t classes = g.from_leader(active_classes().load()) & ~own; classes != 0; classes &= classes - 1) {
      unsigned const other = simt::lowest_bit(classes);
      GPUHEAP_NO_UNROLL
      for (unsigned k = g.rank(); k < at.num_shards(); k += g.size()) {
        shard_word const w{drain(other, k)};
        any |= w.bits != 0;
        // The thread that resets the span puts it back soon.
        if (w.is_being_reset()) simt::back_off{}.wait();
        if (!w.has_span()) continue;
        if (w.is_reused()) {
          // Accounts the span's claims that no thread made. The group whose account is the last ends the reuse, and with it the relocation.
          if (this->account(w.page(), w.num_claims() - w.next(), w.num_claims())) this->end_reuse(w.page(), w.num_claims());
        } else {
          split(w.bits, other);
          this->deactivate(w.page(), span_header::active, true);
          relocations().end();
        }
      }
      simt::sync_warp(mask);
      if (g.leads()) erase_if_inactive(other);
    }
    return simt::any_of(mask, any);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
