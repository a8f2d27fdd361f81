// The life of a run: the heap's shared words, how a run ends, how its freed slots are found again.
//
//   free segments --claim--> bound (fresh) --all drawn--> listed <--> bound (sweep) --> ... --all slots freed--> free segments
//      segment map           shard word                   class list   shard word
//
// Between two stages a run is in nobody's sight; those moves are bracketed in `transit`, and a request is refused only after a search that
// no move crossed.
#pragma once

#include <gpuheap/allocators/sharded_runs/layout.hpp>
#include <gpuheap/structures/segment_map.hpp>
#include <gpuheap/structures/transit_count.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

using simt::lane_mask;
using structures::segment_map;
using structures::transit_count;
using structures::warp_group;

// Classes that may have something, a bit each. Exact in the sense of bitmap_tree's summary: a cleared bit is restored if the second look
// finds something.
struct class_set {
  uint64_t* word = nullptr;

  // acq_rel: pairs with drop(): either the drop's second look sees what was added, or this bit comes after the drop.
  GPUHEAP_FN void add(unsigned c) const { simt::atomic_ref<uint64_t>{*word}.fetch_or(uint64_t{1} << c, simt::acq_rel); }
  GPUHEAP_FN void drop(unsigned c) const { simt::atomic_ref<uint64_t>{*word}.fetch_and(~(uint64_t{1} << c), simt::acq_rel); }
  [[nodiscard]] GPUHEAP_FN uint64_t load() const { return simt::atomic_ref<uint64_t>{*word}.load(simt::acquire); }
  [[nodiscard]] GPUHEAP_FN bool has(unsigned c) const { return (load() >> c & 1) != 0; }
};

// The words that all threads share, and what can be done with one run. In device memory: out-of-line functions get its address, never a
// view by reference, so no kernel pays a stack frame for them.
struct alignas(128) runs {
  layout at;
  alignas(128) unsigned num_free = 0;
  alignas(128) unsigned least_free = 0;
  alignas(128) uint64_t transit_word = 0;
  alignas(128) uint64_t bound_word = 0;   // bit c: a shard of class c may have a run
  alignas(128) uint64_t listed_word = 0;  // bit c: a run of class c may be listed

  [[nodiscard]] GPUHEAP_FN segment_map segments() { return {at.tree(0), at.num_segments, &num_free, &least_free}; }
  [[nodiscard]] GPUHEAP_FN transit_count moves() { return {&transit_word}; }
  [[nodiscard]] GPUHEAP_FN class_set bound_classes() { return {&bound_word}; }
  [[nodiscard]] GPUHEAP_FN class_set listed_classes() { return {&listed_word}; }
  [[nodiscard]] GPUHEAP_FN bitmap_tree list_of(unsigned c) { return at.tree(1 + c); }

  // ---- the end of a run's use

  // Puts a run where adopters look. The run may have been released meanwhile: a stale bit is dropped by whoever looks.
  GPUHEAP_COLD void list(unsigned c, unsigned segment) {
    list_of(c).set(segment);
    listed_classes().add(c);
  }

  // Whether `h` says that every slot is free and nobody hands any out; if so, tries to end the run. True: the caller owns the segments and
  // must release them.
  GPUHEAP_FN bool end_if_empty(unsigned segment, run_header h) {
    if (h.is_bound() || (h.bits & run_header::slots) == 0) return false;
    if (h.full_groups() != at.slots_of(segment, h.size_class(), h.order()).num_groups()) return false;
    // acq_rel: acquires every free of the run (they all counted on this word or on one that was released into it). If it fails, the header
    // has a new adopter, who makes the same test when done.
    uint64_t expected = h.bits;
    return at.header(segment).compare_exchange(expected, run_header::unused(h.generation()).bits, simt::acq_rel, simt::relaxed);
  }

  // A group of the run became entirely free. True: the run did too, and is the caller's to release. Any thread.
  GPUHEAP_COLD bool count_full_group(unsigned segment) {
    // acq_rel: carries the frees of the group to whoever ends the run.
    return end_if_empty(segment, {at.header(segment).fetch_add(run_header::full_one, simt::acq_rel) + run_header::full_one});
  }

  // Makes an ended run's segments free again. All lanes of `mask` call with the same run.
  GPUHEAP_FN void release(lane_mask mask, unsigned segment, unsigned c, unsigned order) {
    warp_group const g{mask};
    unsigned const rank = g.rank(), lanes = g.size();
    at.slots_of(segment, c, order).clear(rank, lanes);
    // Ends: one pass per segment. relaxed: ordered by the barrier and the release below.
    GPUHEAP_NO_UNROLL
    for (unsigned i = rank; i < 1u << order; i += lanes) at.tag(segment + i).store(0, simt::relaxed);
    // The barrier orders the other lanes' stores before the leader's release in release_span.
    simt::sync_warp(mask);
    if (g.leads()) segments().release_span(segment, 1u << order);
  }
  GPUHEAP_FN void release_alone(unsigned segment, run_header h) {
    release(lane_mask{1} << simt::lane_id(), segment, h.size_class(), h.order());
  }

  // Runs ended by some lanes of a warp, `ended` a subset of `here`: the whole warp releases them one by one. All lanes of `here` call.
  GPUHEAP_COLD void release_ended(lane_mask here, lane_mask ended, unsigned segment, unsigned class_and_order) {
    // Ends: one pass per lane of `ended`.
    GPUHEAP_NO_UNROLL
    for (; ended != 0; ended &= ended - 1) {
      unsigned const lane = simt::lowest_bit(ended);
      unsigned const s = simt::shuffle(here, segment, lane), co = simt::shuffle(here, class_and_order, lane);
      release(here, s, co & 63, co >> 6);
      simt::sync_warp(here);
    }
  }

  // Ends one handing-out of a run: takes `bound` (and what was accounted) off its header, then releases or lists it. One thread, in a
  // transit.
  GPUHEAP_FN void unbind(unsigned segment, uint64_t subtract) {
    // acq_rel: every take of this binding has been counted before (this thread's, or those that it acquired with the last account).
    run_header const h{at.header(segment).fetch_sub(subtract, simt::acq_rel) - subtract};
    if (end_if_empty(segment, h)) {
      release_alone(segment, h);
    } else {
      list(h.size_class(), segment);
    }
  }

  // All slots of a fresh run have been handed out or given back.
  GPUHEAP_FN void retire_fresh(unsigned segment) {
    run_header const h{at.header(segment).load(simt::relaxed)};
    // The tags need no longer send frees to the shard word. While bound, the run keeps its tags. relaxed: a free that still sees the old
    // tag only looks in vain.
    segment_tag::word const tag = segment_tag::of_slots(h.size_class(), h.order(), 0, false).bits;
    // Ends: one pass per segment.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < 1u << h.order(); ++i) at.tag(segment + i).store(tag, simt::relaxed);
    unbind(segment, run_header::bound);
  }

  // Accounts for `count` slots of a sweep of a run with `num_slots`. The thread that accounts for the last ends the sweep, and the transit
  // that began when the sweep left its shard.
  GPUHEAP_FN void account(unsigned segment, unsigned count, unsigned num_slots) {
    // acq_rel: releases this group's takes and counts to the one that ends the sweep.
    uint64_t const add = count * run_header::accounted_one;
    run_header const h{at.header(segment).fetch_add(add, simt::acq_rel) + add};
    if (h.accounted() != num_slots) return;
    unbind(segment, num_slots * run_header::accounted_one + run_header::bound);
    moves().end();
  }

  // ---- reusing freed slots

  // Binds a listed run of class c to the caller. In a transit.
  GPUHEAP_FN bool adopt(bitmap_tree const& listed, unsigned c, unsigned segment) {
    if (!listed.take(segment)) return false;
    // The take acquired the listing: what is seen now is the run as listed, or later. A run that is bound or serves another class will be
    // listed by whoever ends that.
    uint64_t seen = at.header(segment).load(simt::acquire);
    // Ends: an exchange fails only because a free counted a group or another adopter won; the first is bounded by the run's groups, the
    // second leaves the loop.
    GPUHEAP_NO_UNROLL
    while (run_header{seen}.serves(c) && !run_header{seen}.is_bound()) {
      if (at.header(segment).compare_exchange(seen, seen | run_header::bound, simt::acq_rel, simt::acquire)) return true;
    }
    return false;
  }

  // Calls visit(segment) for each listed run of class c, from a leaf chosen by `seed` on, until it returns true. Returns that.
  template <class Visit>
  GPUHEAP_FN bool for_each_listed(bitmap_tree const& listed, unsigned seed, Visit visit) {
    unsigned const start = seed % listed.num_leaves;
    // Ends: one pass per leaf.
    GPUHEAP_NO_UNROLL
    for (unsigned step = 0; step < listed.num_leaves; ++step) {
      unsigned i = start + step;
      if (i >= listed.num_leaves) i -= listed.num_leaves;
      if ((listed.summary_word(i / 64).load(simt::relaxed) >> (i % 64) & 1) == 0) continue;
      uint64_t bits = listed.leaf(i).load(simt::relaxed);
      if (bits == 0) listed.tidy(i);
      // Ends: one pass per bit.
      GPUHEAP_NO_UNROLL
      for (; bits != 0; bits &= bits - 1) {
        if (visit(i * 64 + simt::lowest_bit(bits))) return true;
      }
    }
    return false;
  }

  // Group `g` drew slots of a sweep: takes what is free in their words. Each lane gets a pointer or nullptr.
  GPUHEAP_FN void* sweep(warp_group g, shard_word drawn, unsigned c) {
    unsigned const n = g.size(), rank = g.rank(), begin = drawn.next(), num_slots = drawn.num_slots(), segment = drawn.segment();
    unsigned const end = begin + n < num_slots ? begin + n : num_slots;
    slot_map const map = at.slots_of(segment, c, drawn.order());
    void* result = nullptr;
    unsigned served = 0;
    // Ends: two words at most, since n <= 32.
    GPUHEAP_NO_UNROLL
    for (unsigned w = begin / slot_map::slots_per_word; w <= (end - 1) / slot_map::slots_per_word && served < n; ++w) {
      uint64_t got = 0;
      if (g.leads()) take_slots(map, segment, w, n - served, got);
      got = g.from_leader(got);
      result = share_out(result, got, segment, w, c, rank, served);
    }
    if (g.leads()) account(segment, end - begin, num_slots);
    return result;
  }

  // Takes up to `wanted` slots of word w of a bound run and keeps the counts.
  GPUHEAP_FN void take_slots(slot_map const& map, unsigned segment, unsigned w, unsigned wanted, uint64_t& got) {
    // acq_rel: before the account or unbind that lets anyone believe the count.
    if (map.take(w, wanted, got).group_crossed) at.header(segment).fetch_sub(run_header::full_one, simt::acq_rel);
  }
  // The slot in `got` that falls to this lane, if any; lanes 0..served-1 by rank have theirs already.
  GPUHEAP_FN void* share_out(void* mine, uint64_t got, unsigned segment, unsigned w, unsigned c, unsigned rank, unsigned& served) {
    unsigned const fresh = simt::popcount(got);
    if (rank >= served && rank - served < fresh) {
      mine = at.address(segment, w * slot_map::slots_per_word + structures::nth_set_bit(got, rank - served), c);
    }
    served += fresh;
    return mine;
  }

  // Goes through the listed runs of class c, one at a time and whole, until every lane of the group has a slot or none is left. A run found
  // without a free slot leaves the list; the next free in it brings it back. Each lane gets a pointer or nullptr.
  GPUHEAP_FN void* harvest(warp_group g, unsigned c, unsigned seed) {
    unsigned const n = g.size(), rank = g.rank();
    void* result = nullptr;
    unsigned served = 0;
    bitmap_tree const listed = list_of(c);
    // Ends: every pass takes a run off the list. It comes back only if it had a free slot, which this group took or saw another free.
    GPUHEAP_NO_UNROLL
    while (served < n) {
      unsigned segment = segment_map::none;
      if (g.leads()) {
        moves().begin();
        for_each_listed(listed, seed, [&](unsigned s) {
          bool const adopted = adopt(listed, c, s);
          if (adopted) segment = s;
          return adopted;
        });
        if (segment == segment_map::none) {
          listed_classes().drop(c);
          if (listed.maybe_any()) listed_classes().add(c);
          moves().end();
        }
      }
      segment = g.from_leader(segment);
      if (segment == segment_map::none) return result;
      run_header const h{g.from_leader(at.header(segment).load(simt::relaxed))};
      slot_map const map = at.slots_of(segment, c, h.order());
      unsigned const num_words = map.num_words();
      bool found = false;
      // Ends: one pass per `n` words.
      GPUHEAP_NO_UNROLL
      for (unsigned first = 0; first < num_words && served < n; first += n) {
        unsigned const w = first + rank;
        lane_mask with = simt::ballot(g.mask, w < num_words && map.mark_unlisted(w) != 0);
        found |= with != 0;
        // Ends: one pass per lane of `with`.
        GPUHEAP_NO_UNROLL
        for (; with != 0 && served < n; with &= with - 1) {
          unsigned const lane = simt::lowest_bit(with);
          uint64_t got = 0;
          if (simt::lane_id() == lane) take_slots(map, segment, w, n - served, got);
          got = simt::shuffle(g.mask, got, lane);
          result = share_out(result, got, segment, simt::shuffle(g.mask, w, lane), c, rank, served);
        }
      }
      if (g.leads()) {
        if (found) {
          unbind(segment, run_header::bound);
        } else {
          end_unlisted(segment);
        }
        moves().end();
      }
    }
    return result;
  }

  // Unbinds a run all of whose words are marked unlisted: it stays off the list.
  GPUHEAP_FN void end_unlisted(unsigned segment) {
    run_header const h{at.header(segment).fetch_sub(run_header::bound, simt::acq_rel) - run_header::bound};
    if (end_if_empty(segment, h)) release_alone(segment, h);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
