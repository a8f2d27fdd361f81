// Partial spans: how a warp chooses one and acquires it, how claims find its freed slots, and how a search scans it slot by slot.
//
//   partial list --acquire--> active --the shard word's claims--> partial list, or unused if all slots are free by then
//                             \--scan, by one group of lanes--/
//
// A partial span is in its class's list. A thread that takes its bit from there and sets `active` in its header owns it: no other thread
// releases or acquires an active span. A refill puts an acquired span into its shard as *reused*: the shard word then counts claims, not
// slots, and each claim looks for a freed slot in one word of the span's bitmap. Between the list and the shard no thread finds the span,
// so the acquisition lies in a relocation.
#pragma once

#include <gpuheap/allocators/sharded_spans/demand.hpp>
#include <gpuheap/allocators/sharded_spans/reset.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The operations on a partial span.
struct partial_spans : resets {
  // ---- to acquire one

  // Clears the stale summary bit of a leaf of the list of class c. If a bit was set meanwhile, another thread may have found the list empty
  // and erased the class. Then the class is added again: either that erasure comes after this addition, and its second look finds the bit,
  // or before it.
  GPUHEAP_COLD void clear_stale_partial(bitmap_tree const& list, unsigned c, unsigned leaf) {
    if (list.clear_stale(leaf)) partial_classes().add(c);
  }

  // Acquires the partial span of class c that begins at `page`. Returns its header, now active; or 0 if it is not partial any more. Opens
  // `relocation`. If `emptied`, the caller owes clear_stale_partial() before it ends that.
  GPUHEAP_COLD uint64_t acquire_partial(unsigned c, unsigned page, lazy_relocation& relocation, bool& emptied) {
    relocation.begin();
    if (at.partial_tree(c).take_leaf_only(page / 64, uint64_t{1} << (page % 64), emptied) == 0) return 0;
    // consume: the take acquired the listing, so this is the header as it was then, or later. The span may serve another class by now; then
    // it is listed there when that use ends. It may be active, if a free listed it after its owner had found no free slot: the owner is
    // told to list it again.
    uint64_t seen = at.header(page).load(simt::consume);
    // Ends: an exchange fails because a free counted a group, or the span was deactivated, or another thread acquired it. A span has a
    // bounded number of groups; the others are another thread's progress.
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

  // Acquires some partial span of class c. One thread. Returns its first page, and a relocation is open; or segment_map::none.
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
  GPUHEAP_COLD unsigned acquire_in_leaf(unsigned c, unsigned leaf, lazy_relocation& relocation) {
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
  // Erases class c from the classes with partial spans, if its list is empty. Not if it is erased already: see erase_if_inactive().
  GPUHEAP_COLD void erase_if_no_partial(unsigned c, lazy_relocation& relocation) {
    if (!partial_classes().has(c)) return;
    relocation.begin();
    partial_classes().erase(c);
    if (at.partial_tree(c).maybe_any()) partial_classes().add(c);
  }

  // ---- claims of a reused span

  // Counts `count` claims of a reused span, which has `num_claims`, as over. True: these were the last, and the caller calls end_reuse().
  GPUHEAP_FN bool account(unsigned page, unsigned count, unsigned num_claims) {
    // relay: releases what this group took and counted to the thread that ends the reuse.
    uint64_t const add = count * span_header::accounted_one;
    return span_header{at.header(page).fetch_add(add, simt::relay) + add}.accounted() == num_claims;
  }
  // Also ends the relocation that began when the span left its shard.
  GPUHEAP_FN void end_reuse(unsigned page, unsigned num_claims) {
    deactivate(page, num_claims * span_header::accounted_one + span_header::active, true);
    relocations().end();
  }

  static constexpr unsigned earlier_words = 4;  // words before a claim's own in which it looks for slots that earlier claims have left
  // Takes a slot for each lane of several groups that claimed slots of reused spans. `mask` is a lane's group, none of which has a slot
  // yet, or 0 for a lane without a group. Each group takes what is free in the words of its claims; where that is too little, what the
  // claims of a few earlier words left. Returns each lane's slot, or `mine`. The groups' leaders account for the claims afterwards.
  //
  // A word has as many claims as it has free slots on average: some words have fewer free slots, and some of their claims get none. Another
  // claim would cost the warp a pass, and the span a claim. A group that is to refill looks at no earlier words: others wait for it.
  GPUHEAP_COLD void* take_reused(lane_mask here, lane_mask mask, uint64_t claimed_bits, unsigned c, void* mine) {
    // Of a whole warp the compiler knows the mask, as in free().
    return here == simt::all_lanes ? take_reused_by(simt::all_lanes, mask, {claimed_bits}, c, mine)
                                   : take_reused_by(here, mask, {claimed_bits}, c, mine);
  }
  GPUHEAP_FN void* take_reused_by(lane_mask here, lane_mask mask, shard_word claimed, unsigned c, void* mine) {
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
    // Ends: `w` rises to the last word of each group's claims, of which there are 32 at most; then it falls a few words from the first.
    GPUHEAP_NO_UNROLL
    for (;;) {
      bool const looks = left != 0 && w != none;
      if (!simt::any_of(here, looks)) break;
      if (looks && leads && !is_there) free = free_in(claimed, w);
      free = simt::shuffle(here, free, leader);
      unsigned const there = simt::popcount(free), wanted = simt::popcount(left), rank = warp_group{left}.rank();
      // The group picks neighbouring free slots: each lane finds its own.
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
        // The next word's load, where it is certain to be needed, is in flight together with this word's atomic.
        if (is_there) ahead = free_in(claimed, next);
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
  // Free slots of word w of a reused span. A guess.
  [[nodiscard]] GPUHEAP_FN uint64_t free_in(shard_word claimed, unsigned w) {
    // relaxed, both: the take decides; and the class and length of an active span stay. Only the last word depends on the span's length.
    uint64_t const bits = at.slots_of(claimed.page()).at(w).load(simt::relaxed);
    if (w + 1 != claimed.reused_words()) return bits & slot_map::all_slots;
    return bits & slot_map::slots_in(w, at.span_slots(span_header{at.header(claimed.page()).load(simt::relaxed)}));
  }
  GPUHEAP_FN void keep_count(unsigned page, slot_map::change taken) {
    // relay: comes before the account() or deactivate() after which a thread believes the count.
    if (taken.group_crossed) at.header(page).fetch_sub(span_header::full_one, simt::relay);
  }

  // ---- a scan, slot by slot, of a span that one group has acquired

  static constexpr unsigned words_at_once = 4;
  // Marks four words of an active span as unlisted, `step` apart. Returns which of them have free slots.
  GPUHEAP_COLD unsigned mark_words(unsigned page, unsigned first, unsigned step, unsigned num_slots) {
    slot_map const map = at.slots_of(page);
    unsigned has = 0;
    // The four atomics are in flight together.
    for (unsigned j = 0; j < words_at_once; ++j) {
      unsigned const w = first + j * step;
      if (w < slot_map::words_for(num_slots) && map.mark_unlisted(w, num_slots) != 0) has |= 1u << j;
    }
    return has;
  }
  // Takes up to `wanted` slots of word w of an active span, and keeps the counts.
  GPUHEAP_COLD uint64_t take_slots(unsigned page, unsigned w, unsigned num_slots, unsigned wanted) {
    uint64_t got = 0;
    keep_count(page, at.slots_of(page).take(w, num_slots, wanted, got));
    return got;
  }
  // The slot in `got` that falls to this lane, or `mine`. The lanes 0..served-1 by rank have slots already.
  GPUHEAP_COLD void* distribute(void* mine, uint64_t got, unsigned page, unsigned w, unsigned c, unsigned rank, unsigned& served) {
    unsigned const there = simt::popcount(got);
    if (rank >= served && rank - served < there) {
      mine = at.address(page, w * slot_map::slots_per_word + simt::nth_set_bit(got, rank - served), c);
    }
    served += there;
    return mine;
  }
  // Takes slots of a span that the group `mask` has acquired, word by word, until every lane has one. Each word is marked as unlisted
  // before its slots are taken. Returns each lane's slot or nullptr. If no lane gets one, all words are marked, and no slot was free.
  GPUHEAP_COLD void* scan(lane_mask mask, unsigned page, unsigned c) {
    warp_group const g{mask};
    unsigned const n = g.size(), rank = g.rank();
    // relaxed: the leader acquired the span, whose class and length stay. The others have the header from the leader.
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

// How a refill chooses a partial span: each lane of the warp samples one, and the warp acquires the one with the greatest free share.
template <class Named>
struct partial_choice : partial_spans {
  static constexpr tuning Tuning = Named::tuned;
  // A lane's findings about one partial span.
  struct sample {
    static constexpr unsigned is_not_partial = 127;  // of a span that is not partial: an attempt to acquire it takes it from the list
    unsigned worth = 0;                              // 0: not worth a reuse. 1..64: rises with the share of its slots that are free
    unsigned page = 0;
    unsigned claims = 1;  // for each of its words
  };
  // One refill's choice. It lies in the frame, as control::request does.
  struct choice {
    lane_mask here;
    unsigned owner;  // the lane whose refill this is: it alone acquires spans
    demand d;
    refill_result how;
    unsigned from, seed;
    bool open = false;   // the owner's relocation
    uint64_t found = 0;  // the owner's span
    bitmap_tree::share mine{};
    sample seen{};
  };
  // Acquires a partial span for each lane whose `offered` says that it may reuse one. All lanes of `here` call, each with its own heap's
  // words; they work for one lane after the other. Returns what the lane got, as a refill_result: no span if it found none.
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
  // The same for one lane. The lanes sample side by side, so that a launch waits for one look instead of for many.
  GPUHEAP_COLD uint64_t acquire_for(choice& a) {
    // From where the last refill's samples ended: a span is sampled again after all others, and by then most of it may be free. Where all
    // shards refill at once, each begins at a place of its own.
    a.from = (keeps_cursor(a.d) ? a.how.cursor() : a.seed * 64) % (at.page_leaves() * 64);
    // The relocation would be opened anyway. So the acquisition need not wait for it.
    if (a.how.ends_span() && simt::lane_id() == a.owner) {
      relocations().begin();
      a.open = true;
    }
    constexpr unsigned most = Tuning.partial_samples;
    unsigned const lanes = simt::popcount(a.here), by_lanes = lanes * samples_per_lane;
    // Ends: `left` falls.
    GPUHEAP_NO_UNROLL
    for (unsigned left = by_lanes > most ? most : by_lanes;; left -= lanes) {
      sample_together(a);
      if (acquire_best(a) || left <= lanes) break;
    }
    return refill_result::of(a.found, a.open).bits;
  }
  [[nodiscard]] GPUHEAP_FN static bool keeps_cursor(demand d) { return Tuning.uses_cursor && !d.is_uniform(); }
  GPUHEAP_COLD void sample_together(choice& a) {
    find_samples(a);
    // At once, so that another shard's refill samples other spans. relaxed: a hint.
    if (keeps_cursor(a.d) && simt::lane_id() == a.owner) cursor_of(a.d.size_class()).store(a.from, simt::relaxed);
    a.seen = {};
    if (a.mine.bit != bitmap_tree::none) a.seen = sample_span(a.d.size_class(), a.mine.bit, a.seed, a.how.is_memory_low());
  }
  GPUHEAP_COLD void find_samples(choice& a) {
    unsigned from = a.from;
    a.mine = at.partial_tree(a.d.size_class()).bit_for_each(a.here, from);
    a.from = from;
  }
  GPUHEAP_COLD sample sample_span(unsigned c, unsigned page, unsigned seed, bool memory_is_low) {
    // relaxed: a guess.
    span_header const h{at.header(page).load(simt::relaxed)};
    if (!h.serves(c) || h.is_active()) return {sample::is_not_partial, page, 1};
    unsigned const slots = at.span_slots(h);
    unsigned sampled = 1;
    unsigned const free = at.slots_of(page).sample(slots, seed >> 8, sampled);
    if (!is_worth_reuse<Tuning>(free, sampled, memory_is_low)) return {};
    return {1 + free * 63 / sampled, page, claims_for_each_word(free, sampled, slots, slot_map::slots_per_word)};
  }
  // Acquires the best span of those sampled for the owner. True: it has one.
  GPUHEAP_COLD bool acquire_best(choice& a) {
    bool finds = false;
    // Ends: one pass per lane: a span that cannot be acquired is another thread's, or not listed any more.
    GPUHEAP_NO_UNROLL
    for (lane_mask best; !finds && (best = best_of(a.here, a.seen.worth)) != 0;) {
      unsigned const lane = simt::lowest_bit(best);
      unsigned const page = simt::shuffle(a.here, a.seen.page, lane), claims = simt::shuffle(a.here, a.seen.claims, lane);
      if (simt::lane_id() == a.owner) acquire_sampled(a, page, claims);
      finds = simt::any_of(a.here, a.found != 0);
      if (simt::lane_id() == lane) a.seen.worth = 0;
    }
    // Other warps wait for a span that was found. So stale summary bits are cleared only where many lanes met them, or nothing was found.
    unsigned const empty = simt::popcount(simt::ballot(a.here, a.mine.empty_leaf != bitmap_tree::none)),
                   sampled = simt::popcount(simt::ballot(a.here, a.mine.bit != bitmap_tree::none));
    if (empty != 0 && (!finds || empty * 4 > sampled)) clear_stale_together(a.here, a.d.size_class(), a.mine.empty_leaf);
    return finds;
  }
  // Of the owner: acquires the span at `page`, if it still is partial.
  GPUHEAP_COLD void acquire_sampled(choice& a, unsigned page, unsigned claims) {
    unsigned const c = a.d.size_class();
    lazy_relocation relocation{relocations(), a.open};
    bool emptied = false;
    // The header that was acquired, not the one that was sampled: the memory may be another span by now.
    span_header const now{this->acquire_partial(c, page, relocation, emptied)};
    a.open = relocation.open;
    if (now.is_active()) {
      a.found = shard_word::of_reused(page, slot_map::words_for(at.span_slots(now)), claims).bits | (emptied ? refill_result::stale : 0);
    } else if (emptied) {
      this->clear_stale_partial(at.partial_tree(c), c, page / 64);
    }
  }
  // The lanes whose `worth`, below 128, is the highest; none if all are 0.
  [[nodiscard]] GPUHEAP_FN static lane_mask best_of(lane_mask here, unsigned worth) {
    lane_mask best = simt::ballot(here, worth != 0);
    GPUHEAP_NO_UNROLL
    for (unsigned bit = 64; bit != 0; bit >>= 1) {
      lane_mask const have = best & simt::ballot(here, (worth & bit) != 0);
      if (have != 0) best = have;
    }
    return best;
  }
  // Clears the stale summary bits of the leaves that lanes of `here` found empty: `leaf`, or bitmap_tree::none for a lane that found none.
  GPUHEAP_COLD void clear_stale_together(lane_mask here, unsigned c, unsigned leaf) {
    bool const leads = warp_group{here}.leads();
    if (leads) relocations().begin();
    // The barriers order the lanes' changes into the leader's relocation.
    simt::sync_warp(here);
    if (leaf != bitmap_tree::none) this->clear_stale_partial(at.partial_tree(c), c, leaf);
    simt::sync_warp(here);
    if (leads) relocations().end();
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
