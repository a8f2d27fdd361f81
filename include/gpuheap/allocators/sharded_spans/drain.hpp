// Draining: a search takes the unclaimed slots away from shards of other classes, and a refill takes over an idle span of another class.
//
//   shard word   {span, next} --compare-exchange--> idle
//
// One compare-exchange takes a span that has room from its shard: no claim has reached the slots from `next` on, and none will. A new span
// is then split: the units without a claimed slot are released, and the unclaimed slots of the other units are marked as free. In a reused
// span, the claims that no thread made are accounted as over. From the exchange until the span is listed or released, a relocation is open.
//
// A new span of which no slot is claimed is *idle*. Nothing of it is live, and its slot words are as prepare() has left them. So it is
// released without a split. A reset (reset.hpp) leaves idle spans, and a heap in which other classes were used may consist of them, while
// little memory is free. A refill that finds memory short takes such a span over: the same exchange takes it from its shard, and it becomes
// a span of the refill's class at once, without a way through the free pages. The refill releases the pages that it does not need.
#pragma once

#include <gpuheap/allocators/sharded_spans/refill.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// A search's work on the shards of other classes.
template <class Named>
struct drains : refills<Named> {
  using spans::active_classes;
  using spans::at;
  using spans::held_pages;
  using spans::relocations;
  using spans::segments;

  // Drains shard k of class c if that gains memory: its span has whole units that no claim has reached, or has no live slot. One thread. If
  // it drained the shard, returns the shard word from before, and a relocation is open: the caller finishes the drained span and ends the
  // relocation. Otherwise returns a word without a span: the shard word if the span is being reset, so that the caller looks again; else 0.
  GPUHEAP_FN uint64_t drain(unsigned c, unsigned k) {
    uint64_t seen = at.shard(c, k).load(simt::consume);
    // Ends: an exchange fails because other threads claimed slots, of which a span has a bounded number, or because another thread replaced
    // the span, which is that thread's progress.
    GPUHEAP_NO_UNROLL
    while (shard_word{seen}.has_room()) {
      shard_word const w{seen};
      // relaxed: a guess. The exchange decides.
      span_header const h{at.header(w.page()).load(simt::relaxed)};
      if (w.is_reused() ? !nothing_live(w) : units_kept(w, h, c) == h.length() && !this->all_free(w.bits)) return 0;
      relocations().begin();
      // Only a shard with room may be drained: a shard past its end belongs to the thread that refills it. consume_release: as in
      // install().
      if (at.shard(c, k).compare_exchange(seen, 0, simt::consume_release, simt::consume)) return w.bits;
      relocations().end();
    }
    return shard_word{seen}.is_being_reset() ? seen : 0;
  }

  // Whether no slot of the reused span in w is live. A hint.
  [[nodiscard]] GPUHEAP_FN bool nothing_live(shard_word w) {
    slot_map const map = at.slots_of(w.page());
    // relaxed: a guess.
    unsigned const num_slots = at.span_slots(span_header{at.header(w.page()).load(simt::relaxed)});
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < slot_map::words_for(num_slots); ++i) {
      uint64_t const whole = slot_map::slots_in(i, num_slots);
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
    release_units(page, h, kept);
  }

  // Finishes a new span that was drained, of class c: releases it if it is idle, and splits and deactivates it otherwise. One thread,
  // during a relocation.
  GPUHEAP_COLD void finish_drained(uint64_t drained, unsigned c) {
    if (shard_word{drained}.next() == 0) {
      unsigned const page = shard_word{drained}.page();
      release_units(page, {take_apart(page, shard_word{drained}.num_slots())}, 0);
    } else {
      split(drained, c);
      this->deactivate(shard_word{drained}.page(), span_header::active, true);
    }
  }
  // Takes an idle span that was drained apart, of num_slots slots: its memory is as unused memory is then, and belongs to the caller.
  // Returns the span's header. One thread, during a relocation.
  GPUHEAP_COLD uint64_t take_apart(unsigned page, unsigned num_slots) {
    // relaxed: this thread alone holds the active span. The release of its memory, or its next publication, publishes the changes.
    uint64_t seen = at.header(page).load(simt::relaxed);
    // Ends: an exchange fails only if another thread sets `relist` in between, which it does once. relay: as in end_if_empty().
    GPUHEAP_NO_UNROLL
    while (!at.header(page).compare_exchange(seen, span_header::unused(span_header{seen}.generation()).bits, simt::relay, simt::relaxed)) {
    }
    span_header const h{seen};
    at.slots_of(page).unprepare(num_slots);
    this->clear_tags(page, h.of_segments(), 0, h.length(), 1);
    // As in forget().
    at.partial_tree(h.size_class()).erase(page);
    return seen;
  }
  // Releases the units from unit `from` on of a span that was taken apart. The span began at `page` with the header h. One thread, during a
  // relocation.
  GPUHEAP_COLD void release_units(unsigned page, span_header h, unsigned from) {
    unsigned const first = page + (h.of_segments() ? from << at.lg_pages : from);
    segments().release_pages(first, this->give_up(h.length() - from, h.of_segments(), h.size_class()), relocations());
  }

  // ---- idle spans of other classes

  // One lane's best find: the shard word, and {worth : 7, class : 6, shard : 4}; the worth is 0 if it found none (worth_of_idle).
  struct idle_span {
    uint64_t word = 0;
    unsigned where = 0;
    [[nodiscard]] GPUHEAP_HD constexpr unsigned worth() const { return where >> 10; }
  };
  using refill_state = typename refills<Named>::slow_refill;
  // Takes an idle span of another class for each lane whose `offered`, the result of its refill(), says so. All lanes of `here` call, each
  // on its own heap, and work for one such lane after the other. `f`: the lane's refill. If it gets a span, f.claimed is the span's memory,
  // a relocation is open, and the result is the header that the span had: the caller calls publish_idle(). Otherwise the result is 0, and
  // f.got says whether a relocation is open.
  GPUHEAP_COLD uint64_t take_idle_spans(lane_mask here, refill_state& f, refill_result offered) {
    uint64_t taken = 0;
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, offered.takes_over()); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest), pages = simt::shuffle(here, offered.pages(), lane);
      bool const owns = simt::lane_id() == lane;
      auto* const theirs = reinterpret_cast<drains*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      idle_span mine = theirs->look_for_idle(here, {simt::shuffle(here, f.d.bits, lane)}, pages);
      bool finds = false;
      // Ends: each pass clears the worth of one lane's find.
      GPUHEAP_NO_UNROLL
      for (lane_mask best; !finds && (best = refills<Named>::best_of(here, mine.worth())) != 0;) {
        unsigned const from = simt::lowest_bit(best), where = simt::shuffle(here, mine.where, from);
        shard_word const w{simt::shuffle(here, mine.word, from)};
        if (owns) taken = take_idle(f, pages, w, where & 0x3ff);
        finds = simt::any_of(here, owns && taken != 0);
        if (simt::lane_id() == from) mine.where = 0;
      }
      // relaxed: a hint.
      if (owns && !finds) this->last_without_idle().store(simt::launch_id(), simt::relaxed);
    }
    return taken;
  }
  // Looks for idle spans of other classes for the demand d. Each lane returns its best find. Each lane looks at the shards of one class,
  // from the number of the demand's shard on: shards that are refilled at the same time find different spans.
  GPUHEAP_COLD idle_span look_for_idle(lane_mask here, demand d, unsigned pages) {
    warp_group const g{here};
    uint64_t const classes = g.from_leader(active_classes().load()) & ~(uint64_t{1} << d.size_class());
    unsigned const num = simt::popcount(classes), shards = at.num_shards(), turns = (num + g.size() - 1) / g.size();
    idle_span best{};
    GPUHEAP_NO_UNROLL
    for (unsigned looks = 0; looks < looks_for_idle && num != 0 && looks / turns * 4 < shards; ++looks) {
      unsigned const i = looks % turns * g.size() + g.rank(), from = looks / turns * 4;
      if (i < num) {
        unsigned const c = simt::nth_set_bit(classes, i);
        // The four loads are in flight together. relaxed: the exchange decides. If the class has fewer than four shards, some are loaded
        // twice.
        uint64_t words[4];
        for (unsigned j = 0; j < 4; ++j) words[j] = at.shard(c, (d.shard() + from + j) & (shards - 1)).load(simt::relaxed);
        // The first one that is long enough, or else the longest. The spans of a class are as long as their numbers of slots.
        unsigned const each = size_classes::slot_bytes(c), enough = (pages << at.page_shift) / each;
        for (unsigned j = 0; j < 4; ++j) {
          shard_word const w{words[j]}, so_far{best.word};
          if (!w.is_reused() && w.next() == 0 && w.num_slots() > so_far.num_slots() && so_far.num_slots() <= enough)
            best = {w.bits, c << 4 | ((d.shard() + from + j) & (shards - 1))};
        }
        best.where |= worth_of_idle(pages_of(uint64_t{shard_word{best.word}.num_slots()} * each, at.page_shift), pages) << 10;
      }
      if (simt::any_of(here, best.worth() != 0)) break;
      best = {};
    }
    return best;
  }
  // Takes the idle span of `w` from its shard, `where` = {class : 6, shard : 4}, for the refill f, which needs `pages` pages. Opens a
  // relocation, unless f.got says that one is open. Returns the span's header, and f.claimed is the memory of the new span. Returns 0 if
  // the span was gone, or if it does not suit the refill's class, and became free. The thread with the refill duty.
  GPUHEAP_COLD uint64_t take_idle(refill_state& f, unsigned pages, shard_word w, unsigned where) {
    if (!f.got.is_open()) relocations().begin();
    f.got = refill_result::of(0, true);
    unsigned const page = w.page(), c = f.d.size_class();
    uint64_t expected = w.bits;
    // consume_release: as in drain(). The whole word is compared, so no slot of the span is claimed.
    if (!at.shard(where >> 4, where & 15).compare_exchange(expected, 0, simt::consume_release, simt::consume)) return 0;
    span_header const h{take_apart(page, w.num_slots())};
    bool const of_segments = h.of_segments();
    unsigned const lg_unit = of_segments ? at.lg_pages : 0, wanted = (pages + (1u << lg_unit) - 1) >> lg_unit;
    unsigned const most = of_segments ? at.max_span_segments(c) : wanted, suits = wanted < most ? wanted : most;
    unsigned const kept = suits < h.length() ? suits : h.length();
    if (at.span_slots(c, kept, of_segments) == 0) {
      release_units(page, h, 0);
      return 0;
    }
    // relaxed, both: hints. finish_new_span() subtracts the free pages again, and counts them as the other class's.
    segments().count_free(kept << lg_unit);
    held_pages(where >> 4).fetch_sub(kept << lg_unit, simt::relaxed);
    f.claimed = {page >> lg_unit, kept, of_segments, false};
    return h.bits;
  }
  // Publishes the span that take_idle() got, and releases the rest of its memory. `header`: the result of take_idle(). Returns the span as
  // refill() does, and the relocation is ended. One thread.
  GPUHEAP_COLD uint64_t publish_idle(refill_state& f, span_header header) {
    // publish() ends the relocation of take_idle(). The rest of the memory has one of its own.
    relocations().begin();
    uint64_t const next = this->publish(f.d, f.old, f.got, f.claimed);
    if (f.claimed.length != header.length()) release_units(shard_word{next}.page(), header, f.claimed.length);
    relocations().end();
    return next;
  }

  // Whether a shard of class c has a span. A span that is being reset counts, since it leaves its shard only for a moment. A span that is
  // used up counts, since it stays in its shard until a refill replaces it: so that refill does not add the class. A shard that has no span
  // does not count, even if it is being refilled: the refill adds the class when the span is there, and has a relocation open until then.
  [[nodiscard]] GPUHEAP_FN bool holds_a_span(unsigned c) {
    GPUHEAP_NO_UNROLL
    for (unsigned k = 0; k < at.num_shards(); k += 4) {
      uint64_t words[4];
      // The four loads are in flight together. relaxed: what decides comes after the erasure, which acquires.
      for (unsigned j = 0; j < 4; ++j) words[j] = at.shard(c, (k + j) & (at.num_shards() - 1)).load(simt::relaxed);
      for (uint64_t const word : words) {
        if (shard_word{word}.holds_a_span()) return true;
      }
    }
    return false;
  }
  // Erases class c from the set of classes with active spans, if none of its shards has a span. One thread.
  GPUHEAP_FN void erase_if_inactive(unsigned c) {
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
          finish_drained(w.bits, other);
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
