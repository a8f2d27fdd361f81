// Partial spans: how a warp chooses one and acquires it, how claims find its freed slots, and how a search scans it slot by slot.
//
//   partial list --acquire--> active --the shard word's claims--> partial list, or unused if all slots are free by then
//                             \--scan, by one group of lanes--/
//
// A partial span is in its class's list. A thread that takes the span's bit from the list and sets `active` in its header owns the span: no
// other thread releases or acquires an active span. A refill puts an acquired span into its shard as *reused*: the shard word then counts
// claims, not slots, and each claim looks for a freed slot in one word of the span's bitmap. While the span moves from the list to the
// shard, no thread finds it, so a relocation is open meanwhile.
#pragma once

#include <gpuheap/allocators/sharded_spans/demand.hpp>
#include <gpuheap/allocators/sharded_spans/reset.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The operations on a partial span.
struct partial_spans : resets {
  // ---- acquisition

  // Clears the stale summary bit of a leaf of the list of class c. If another thread has set a bit in the leaf meanwhile, a third thread
  // may have found the list empty and erased the class. So the class is added again. Either that erasure comes before this addition, or it
  // comes after, and then the second look of the thread that erases finds the bit.
  GPUHEAP_FN void clear_stale_partial(bitmap_tree const& list, unsigned c, unsigned leaf) {
    if (list.clear_stale(leaf)) partial_classes().add(c);
  }

  // Acquires the partial span of class c that begins at `page`. Returns its header, which is active now; 0 if the span is no longer
  // partial. Opens `relocation`. If `emptied` becomes true, the caller has to call clear_stale_partial() before it ends the relocation.
  GPUHEAP_FN uint64_t acquire_partial(unsigned c, unsigned page, lazy_relocation& relocation, bool& emptied) {
    relocation.begin();
    if (at.partial_tree(c).take_leaf_only(page / 64, uint64_t{1} << (page % 64), emptied) == 0) return 0;
    // consume: the take acquired the listing, so this load returns the header of that moment or a later one. The span may serve another
    // class by now; it is then listed in that class when it becomes inactive. The span may be active, if a free listed it after its owner
    // had found no free slot in it. The flag `relist` then tells the owner to list the span again.
    uint64_t seen = at.header(page).load(simt::consume);
    // Ends: an exchange fails because a free counted a group, of which a span has a bounded number, or because another thread deactivated
    // or acquired the span, which is that thread's progress.
    GPUHEAP_NO_UNROLL
    while (span_header{seen}.serves(c)) {
      bool const is_active = span_header{seen}.is_active();
      uint64_t const next = is_active ? seen | span_header::relist : span_header{seen}.active_again().bits;
      // relay: deactivate() comes after this exchange, or is seen by it.
      if (!at.header(page).compare_exchange(seen, next, simt::relay, simt::consume)) continue;
      // relaxed: a hint.
      if (!is_active) inactive_spans(c).fetch_sub(1, simt::relaxed);
      return is_active ? 0 : next;
    }
    return 0;
  }

  // Acquires any partial span of class c. `seed` chooses where the search begins. Returns the span's first page, and a relocation is open;
  // segment_map::none if there is no partial span. One thread.
  GPUHEAP_COLD unsigned acquire_any_partial(unsigned c, unsigned seed) {
    lazy_relocation relocation{relocations()};
    unsigned page = segment_map::none;
    at.partial_tree(c).for_each_leaf(seed % at.page_leaves(), [&](unsigned leaf) {
      page = acquire_in_leaf(c, leaf, relocation);
      return page != segment_map::none;
    });
    if (page == segment_map::none) {
      erase_if_no_partial(c, relocation);
      relocation.end();
    }
    return page;
  }
  // The same for the spans that begin in one leaf, which is one segment. Opens `relocation` if it takes a bit.
  GPUHEAP_FN unsigned acquire_in_leaf(unsigned c, unsigned leaf, lazy_relocation& relocation) {
    uint64_t bits = at.partial_tree(c).leaf(leaf).load(simt::relaxed);
    bool emptied = bits == 0;
    unsigned page = segment_map::none;
    GPUHEAP_NO_UNROLL
    for (; bits != 0 && page == segment_map::none; bits &= bits - 1) {
      bool last = false;
      unsigned const first = leaf * 64 + simt::lowest_bit(bits);
      if (acquire_partial(c, first, relocation, last) != 0) page = first;
      emptied |= last;
    }
    if (emptied) {
      relocation.begin();
      clear_stale_partial(at.partial_tree(c), c, leaf);
    }
    return page;
  }
  // Erases class c from the set of classes with partial spans, if its list is empty. A class that is erased already needs no relocation:
  // see erase_if_inactive().
  GPUHEAP_FN void erase_if_no_partial(unsigned c, lazy_relocation& relocation) {
    if (!partial_classes().has(c)) return;
    relocation.begin();
    partial_classes().erase(c);
    if (at.partial_tree(c).maybe_any()) partial_classes().add(c);
  }

  // ---- claims of a reused span

  // Counts `count` claims of a reused span as over. The span has `num_claims` claims. Returns whether these were the last of them; the
  // caller then calls end_reuse().
  GPUHEAP_FN bool account(unsigned page, unsigned count, unsigned num_claims) {
    // relay: releases what this group took and counted to the thread that ends the reuse.
    uint64_t const add = count * span_header::accounted_one;
    return span_header{at.header(page).fetch_add(add, simt::relay) + add}.accounted() == num_claims;
  }
  // Deactivates the span, and ends the relocation that began when the span left its shard.
  GPUHEAP_FN void end_reuse(unsigned page, unsigned num_claims) {
    deactivate(page, num_claims * span_header::accounted_one + span_header::active, true);
    relocations().end();
  }

  static constexpr unsigned earlier_words = 4;  // a claim looks for slots that earlier claims left in so many words before its own
  // Takes slots of reused spans for the lanes of `here`, in the words that their groups' claims name. `mask` is a lane's group, none of
  // whose lanes has a slot yet, or 0 for a lane without a group. A group that finds too few free slots in these words also takes slots that
  // earlier claims left in a few words before them. Returns the lane's slot, or `mine` if it got none. The groups' leaders account for the
  // claims afterwards.
  //
  // Every word of a span gets the same number of claims, the average number of free slots in a word. So in a word with fewer free slots,
  // some claims get none. Looking at earlier words costs less than claiming again. A group with the duty to refill looks at no earlier
  // words, since other warps wait for it.
  GPUHEAP_FN void* take_reused(lane_mask here, lane_mask mask, uint64_t claimed_bits, unsigned c, void* mine) {
    shard_word const claimed{claimed_bits};
    static constexpr unsigned none = ~0u;
    warp_group const g{mask};
    bool const reuses = mask != 0, leads = reuses && g.leads();
    unsigned const leader = reuses ? g.leader() : simt::lane_id(), n = g.size(), per_word = claimed.claims_per_word();
    unsigned const end = claimed.next() + n < claimed.num_claims() ? claimed.next() + n : claimed.num_claims();
    unsigned const first = reuses ? claimed.next() / per_word : 0;
    bool const hurries = simt::any_of(here, reuses && claimed.duty_of(n));
    unsigned const lowest = hurries ? first : first < earlier_words ? 0 : first - earlier_words;
    // Claims of the first word that came before this group's.
    unsigned others = reuses ? claimed.next() - first * per_word : 0;
    lane_mask left = mask;  // lanes of the group that have no slot
    unsigned w = reuses ? first : none;
    uint64_t free = 0;
    bool is_there = false;
    // Ends: in each group, `w` rises through the words of the group's claims, at most 32 words, and then falls from the first of them by at
    // most earlier_words words.
    GPUHEAP_NO_UNROLL
    for (;;) {
      bool const looks = left != 0 && w != none;
      if (!simt::any_of(here, looks)) break;
      if (looks && leads) free = (is_there ? free : word_of(claimed, w)) & slots_in(claimed, w);
      free = simt::shuffle(here, free, leader);
      unsigned const there = simt::popcount(free), wanted = simt::popcount(left), rank = warp_group{left}.rank();
      // The group picks consecutive ones of the word's free slots, one for each lane.
      unsigned const from = slot_map::first_pick(there, wanted, others);
      bool const picks = looks && (left >> simt::lane_id() & 1) != 0 && from + rank < there;
      unsigned const bit = picks ? simt::nth_set_bit(free, from + rank) : 0;
      unsigned const lowest_pick = simt::shuffle(here, bit, left != 0 ? simt::lowest_bit(left) : simt::lane_id());
      unsigned const highest_pick = simt::shuffle(here, bit, left != 0 ? simt::highest_bit(left) : simt::lane_id());
      unsigned const up = w + 1, down = w < first ? w : first;
      unsigned const next = !looks ? none : w >= first && up * per_word < end ? up : down > lowest ? down - 1 : none;
      uint64_t got = 0, ahead = 0;
      is_there = there < wanted && next != none;
      if (looks && leads) {
        // If the next word is certain to be needed, its load is in flight together with this word's atomic.
        if (is_there) ahead = word_of(claimed, next);
        uint64_t const pick = there > wanted ? free & simt::low_bits(highest_pick + 1) & ~simt::low_bits(lowest_pick) : free;
        if (pick != 0) keep_count(claimed.page(), at.slots_of(claimed.page()).take_mask(w, pick, got));
      }
      got = simt::shuffle(here, got, leader);
      if (picks && (got >> bit & 1) != 0) mine = at.address(claimed.page(), w * slot_map::slots_per_word + bit, c);
      left = simt::ballot(here, reuses && mine == nullptr) & mask;
      w = next;
      free = ahead;
      others = 0;
    }
    return mine;
  }
  // Word w of a reused span. A guess at what the take will find.
  [[nodiscard]] GPUHEAP_FN uint64_t word_of(shard_word claimed, unsigned w) {
    return at.slots_of(claimed.page()).at(w).load(simt::relaxed);
  }
  // The bits of word w that have a slot. Only those of the last word depend on the span's length.
  [[nodiscard]] GPUHEAP_FN uint64_t slots_in(shard_word claimed, unsigned w) {
    if (w + 1 != claimed.reused_words()) return slot_map::all_slots;
    // relaxed: the class and length of an active span do not change.
    return slot_map::slots_in(w, at.span_slots(span_header{at.header(claimed.page()).load(simt::relaxed)}));
  }
  // Subtracts a group from the header's count if `taken` is the take that made the group no longer entirely free.
  GPUHEAP_FN void keep_count(unsigned page, slot_map::change taken) {
    // relay: this subtraction comes before the account() or deactivate() after which another thread relies on the count.
    if (taken.group_crossed) at.header(page).fetch_sub(span_header::full_one, simt::relay);
  }

  // ---- a scan, word by word, of a span that one group has acquired

  static constexpr unsigned words_at_once = 4;
  // Marks four words of an active span as unlisted: word `first` and those `step`, 2 * `step` and 3 * `step` words after it. Returns a bit
  // for each that has free slots.
  GPUHEAP_FN unsigned mark_words(unsigned page, unsigned first, unsigned step, unsigned num_slots) {
    slot_map const map = at.slots_of(page);
    unsigned has = 0;
    // The four atomics are in flight together.
    for (unsigned j = 0; j < words_at_once; ++j) {
      unsigned const w = first + j * step;
      if (w < slot_map::words_for(num_slots) && map.mark_unlisted(w, num_slots) != 0) has |= 1u << j;
    }
    return has;
  }
  // Takes up to `wanted` slots of word w of an active span, and updates the counts. Returns the bits of the slots.
  GPUHEAP_FN uint64_t take_slots(unsigned page, unsigned w, unsigned num_slots, unsigned wanted) {
    uint64_t got = 0;
    keep_count(page, at.slots_of(page).take(w, num_slots, wanted, got));
    return got;
  }
  // Returns the slot in `got` that falls to this lane, or `mine` if none does. The lanes of rank 0..served-1 have slots already. Adds the
  // slots in `got` to `served`.
  GPUHEAP_FN void* distribute(void* mine, uint64_t got, unsigned page, unsigned w, unsigned c, unsigned rank, unsigned& served) {
    unsigned const there = simt::popcount(got);
    if (rank >= served && rank - served < there) {
      mine = at.address(page, w * slot_map::slots_per_word + simt::nth_set_bit(got, rank - served), c);
    }
    served += there;
    return mine;
  }
  // Takes slots of a span that the group `mask` has acquired, word by word, until every lane has a slot. Each word is marked as unlisted
  // before its slots are taken. Returns each lane's slot or nullptr. If no lane gets a slot, all words are marked, and none had a free slot
  // when it was marked.
  GPUHEAP_FN void* scan(lane_mask mask, unsigned page, unsigned c) {
    warp_group const g{mask};
    unsigned const n = g.size(), rank = g.rank();
    // relaxed: the leader acquired the span, whose class and length do not change. The other lanes get the header from the leader.
    uint64_t const header = g.leads() ? at.header(page).load(simt::relaxed) : 0;
    simt::sync_warp(mask);
    unsigned const num_slots = at.span_slots(span_header{g.from_leader(header)});
    unsigned const num_words = slot_map::words_for(num_slots);
    void* result = nullptr;
    unsigned served = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned first = 0; first < num_words && served < n; first += words_at_once * n) {
      unsigned const has = mark_words(page, first + rank, n, num_slots);
      GPUHEAP_NO_UNROLL
      for (unsigned j = 0; j < words_at_once; ++j) {
        unsigned const w = first + j * n + rank;
        GPUHEAP_NO_UNROLL
        for (lane_mask with = simt::ballot(mask, (has >> j & 1) != 0); with != 0 && served < n; with &= with - 1) {
          unsigned const lane = simt::lowest_bit(with);
          uint64_t got = 0;
          if (simt::lane_id() == lane) got = take_slots(page, w, num_slots, n - served);
          got = simt::shuffle(mask, got, lane);
          result = distribute(result, got, page, simt::shuffle(mask, w, lane), c, rank, served);
        }
      }
    }
    return result;
  }
};

// How a refill chooses a partial span: each lane of the warp samples one, and the warp acquires the one with the most free slots.
template <class Named>
struct partial_choice : partial_spans {
  static constexpr tuning Tuning = Named::tuned;
  // The result of one lane's sample of one partial span.
  struct sample {
    // The worth of a listed span that is not partial. The attempt to acquire such a span takes it off the list.
    static constexpr unsigned is_not_partial = 127;
    unsigned worth = 0;  // 0: not worth a reuse; otherwise worth_of_partial()
    unsigned page = 0;
    unsigned claims = 1;  // claims for each word of the span
  };
  // The state of one refill's choice. It lies in the stack frame, as control::request does.
  struct choice {
    lane_mask here;
    unsigned owner;  // the lane that has the refill duty: it alone acquires spans
    demand d;
    refill_result how;
    unsigned from, seed;
    bool open = false;   // the owner has a relocation open
    uint64_t found = 0;  // the owner's span, as a shard word; 0: none yet
    bitmap_tree::share mine{};
    sample seen{};
  };
  // Acquires a partial span for each lane whose `offered`, the result of its refill(), says that it may reuse one. All lanes of `here`
  // call, each on its own heap, and work for one such lane after the other. Returns the lane's refill_result, which has no span if the warp
  // found none.
  GPUHEAP_COLD uint64_t acquire_best_partial(lane_mask here, demand d, refill_result offered) {
    uint64_t result = 0;
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, offered.may_reuse()); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      auto* const theirs = reinterpret_cast<partial_choice*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      choice a{here, lane, {simt::shuffle(here, d.bits, lane)}, {simt::shuffle(here, offered.bits, lane)}, 0, 0};
      a.seed = simt::shuffle(here, warp_hash() + a.d.shard(), lane) >> 7;
      uint64_t const found = theirs->acquire_for(a);
      if (simt::lane_id() == lane) result = found;
    }
    return result;
  }
  // The same for the lane a.owner. All lanes sample at the same time, so that a launch waits for one trip to memory rather than for many.
  GPUHEAP_COLD uint64_t acquire_for(choice& a) {
    // Samples begin where those of the last refill ended. So a span is sampled again only after all others, and most of its slots may be
    // free by then. If all shards refill at the same time, each begins at a place of its own.
    a.from = (keeps_cursor(a.d) ? a.how.cursor() : a.seed * 64) % (at.page_leaves() * 64);
    // A refill that ends a span opens a relocation in any case. It is opened here already, so that the acquisition need not wait for its
    // atomic.
    if (a.how.ends_span() && simt::lane_id() == a.owner) {
      relocations().begin();
      a.open = true;
    }
    constexpr unsigned most = Tuning.partial_samples;
    unsigned const lanes = simt::popcount(a.here), by_lanes = lanes * samples_per_lane;
    // Ends: `left` falls with each pass, and the loop ends when it is `lanes` or less.
    GPUHEAP_NO_UNROLL
    for (unsigned left = by_lanes > most ? most : by_lanes;; left -= lanes) {
      sample_together(a);
      if (acquire_best(a) || left <= lanes) break;
    }
    return refill_result::of(a.found, a.open).bits;
  }
  // Whether the samples of this demand's refills begin at the class's cursor.
  [[nodiscard]] GPUHEAP_FN static bool keeps_cursor(demand d) { return Tuning.uses_cursor && !d.is_uniform(); }
  // Each lane of the warp samples the next partial span of the class.
  GPUHEAP_FN void sample_together(choice& a) {
    find_samples(a);
    // The cursor is stored before the samples are taken, so that another shard's refill samples other spans. relaxed: a hint.
    if (keeps_cursor(a.d) && simt::lane_id() == a.owner) cursor_of(a.d.size_class()).store(a.from, simt::relaxed);
    a.seen = {};
    if (a.mine.bit != bitmap_tree::none) a.seen = sample_span(a.d.size_class(), a.mine.bit, a.seed, a.how.is_memory_low());
  }
  // Finds the next set bits of the partial list, one for each lane.
  GPUHEAP_FN void find_samples(choice& a) {
    unsigned from = a.from;
    a.mine = at.partial_tree(a.d.size_class()).bit_for_each(a.here, from);
    a.from = from;
  }
  // Samples the span at `page`: estimates the share of its slots that are free.
  GPUHEAP_FN sample sample_span(unsigned c, unsigned page, unsigned seed, bool memory_is_low) {
    // relaxed: a guess.
    span_header const h{at.header(page).load(simt::relaxed)};
    if (!h.serves(c) || h.is_active()) return {sample::is_not_partial, page, 1};
    unsigned const slots = at.span_slots(h);
    unsigned sampled = 1;
    unsigned const free = at.slots_of(page).sample(slots, seed >> 8, sampled);
    if (!is_worth_reuse<Tuning>(free, sampled, memory_is_low)) return {};
    return {worth_of_partial(free, sampled, slots), page, claims_for_each_word(free, sampled, slots, slot_map::slots_per_word)};
  }
  // Acquires for the owner the best of the sampled spans that can be acquired. Returns whether the owner has one.
  GPUHEAP_FN bool acquire_best(choice& a) {
    bool finds = false;
    // Ends: each pass clears the worth of one lane's sample.
    GPUHEAP_NO_UNROLL
    for (lane_mask best; !finds && (best = best_of(a.here, a.seen.worth)) != 0;) {
      unsigned const lane = simt::lowest_bit(best);
      unsigned const page = simt::shuffle(a.here, a.seen.page, lane), claims = simt::shuffle(a.here, a.seen.claims, lane);
      if (simt::lane_id() == a.owner) acquire_sampled(a, page, claims);
      finds = simt::any_of(a.here, a.found != 0);
      if (simt::lane_id() == lane) a.seen.worth = 0;
    }
    // If a span was found, other warps wait for it. Then stale summary bits are cleared only if many lanes met them.
    unsigned const empty = simt::popcount(simt::ballot(a.here, a.mine.empty_leaf != bitmap_tree::none)),
                   sampled = simt::popcount(simt::ballot(a.here, a.mine.bit != bitmap_tree::none));
    if (empty != 0 && (!finds || empty * 4 > sampled)) clear_stale_together(a.here, a.d.size_class(), a.mine.empty_leaf);
    return finds;
  }
  // Acquires the span at `page`, if it still is partial. The owner calls.
  GPUHEAP_FN void acquire_sampled(choice& a, unsigned page, unsigned claims) {
    unsigned const c = a.d.size_class();
    lazy_relocation relocation{relocations(), a.open};
    bool emptied = false;
    // The span is described by the header that was acquired. The sampled header may be that of an earlier span in the same memory.
    span_header const now{this->acquire_partial(c, page, relocation, emptied)};
    a.open = relocation.open;
    if (now.is_active()) {
      a.found = shard_word::of_reused(page, slot_map::words_for(at.span_slots(now)), claims).bits | (emptied ? refill_result::stale : 0);
    } else if (emptied) {
      this->clear_stale_partial(at.partial_tree(c), c, page / 64);
    }
  }
  // The lanes of `here` with the greatest `worth`, which is below 128; no lane if every worth is 0.
  [[nodiscard]] GPUHEAP_FN static lane_mask best_of(lane_mask here, unsigned worth) {
    lane_mask best = simt::ballot(here, worth != 0);
    GPUHEAP_NO_UNROLL
    for (unsigned bit = 64; bit != 0; bit >>= 1) {
      lane_mask const have = best & simt::ballot(here, (worth & bit) != 0);
      if (have != 0) best = have;
    }
    return best;
  }
  // Clears the stale summary bits of the leaves that the lanes of `here` found empty. `leaf`: the leaf that this lane found, or
  // bitmap_tree::none. All lanes of `here` call.
  GPUHEAP_FN void clear_stale_together(lane_mask here, unsigned c, unsigned leaf) {
    bool const leads = warp_group{here}.leads();
    if (leads) relocations().begin();
    // The barriers order the changes of all lanes between the begin and the end of the leader's relocation.
    simt::sync_warp(here);
    if (leaf != bitmap_tree::none) this->clear_stale_partial(at.partial_tree(c), c, leaf);
    simt::sync_warp(here);
    if (leads) relocations().end();
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
