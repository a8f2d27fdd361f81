// Where a shard's next run comes from: a listed run with many free slots, or free memory, as much as is wanted at this moment.
//
// How long a fresh run is follows from demand, not from history. When a thread replaces a run, the shard's word says how many slots were
// asked for beyond its end: these are wanted now. In a launch, those that ask now are a sample of those that will: at most `foresight`
// times as many are expected, and no more than if every warp of the launch asked once as the caller does. A class that holds much already
// gets a fraction of that more. So a burst is served by one or two runs a shard, and a lone thread binds one page.
#pragma once

#include <gpuheap/allocators/sharded_runs/runs.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What may be tuned. The defaults are measured ones: docs/measurements.md.
struct tuning {
  unsigned lg_run_slots = 18;       // a run has at most 2^this slots
  unsigned guide = 32;              // a fresh run takes at most 1/guide of the free memory
  unsigned foresight = 8;           // what is wanted now may be this part of what will be
  unsigned reserve = 8;             // a fresh run is at least 1/reserve of a shard's share of what the class holds
  unsigned rich = 4;                // a listed run is swept if 1/rich of its sampled slots are free
  unsigned adoption_tries = 4;      // listed runs sampled before a fresh one is taken
  unsigned lg_warps_per_shard = 9;  // a launch uses one shard of each class for this many warps
  unsigned looks = 16;              // at a shard that is being replaced, before others are tried
};
static_assert(tuning{}.lg_run_slots <= 18, "shard_word::max_slots");

// log2 of the shards that this launch uses: as many as its warps can keep busy, so that a small launch holds little.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_FN inline unsigned lg_shards_used(unsigned lg_shards) {
  unsigned const warps = simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
  unsigned const lg = simt::highest_bit((warps >> Tuning.lg_warps_per_shard) | 1);
  return lg < lg_shards ? lg : lg_shards;
}
// Spreads consecutive warps evenly.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_hash() { return simt::global_warp() * 0x9e3779b9u; }

template <tuning Tuning>
struct supply : runs {
  // Binds a listed run with many free slots, for a sweep. Empty if there is none among a few.
  GPUHEAP_FN shard_word adopt_rich(unsigned c, unsigned seed, lazy_transit& transit) {
    shard_word found{};
    unsigned tries = Tuning.adoption_tries;
    bitmap_tree const listed = at.list_tree(c);
    for_each_listed(listed, seed, transit, [&](unsigned page) {
      run_header const h{at.header(page).load(simt::relaxed)};
      if (h.serves(c) && !h.is_bound()) {
        if (tries == 0) return true;
        --tries;
        unsigned sampled = 1;
        unsigned const free = at.slots_of(page).sample(at.run_slots(h), seed >> 8, sampled);
        if (free * Tuning.rich < sampled || free == 0) return false;
      }
      if (!adopt(listed, c, page, transit)) return false;
      found = shard_word::of_run(page, at.run_slots(run_header{at.header(page).load(simt::relaxed)}), true);
      return true;
    });
    return found;
  }

  // Pages that a fresh run of class c should have.
  [[nodiscard]] GPUHEAP_FN unsigned pages_wanted(unsigned c, unsigned lanes, unsigned excess, unsigned num_free_now) {
    unsigned const lg_used = lg_shards_used<Tuning>(at.lg_shards);
    unsigned const warps = simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
    // Slots that a shard hands out if every warp asks once as this one does.
    uint64_t const of_all = (uint64_t{lanes} * warps >> lg_used) + 1;
    unsigned const all = of_all < shard_word::max_slots ? static_cast<unsigned>(of_all) : shard_word::max_slots;
    unsigned slots = excess * Tuning.foresight < all ? excess * Tuning.foresight : all;
    if (excess > slots) slots = excess;
    if (slots > 1u << Tuning.lg_run_slots) slots = 1u << Tuning.lg_run_slots;
    unsigned pages = pages_used(c, slots);
    unsigned const share = held_pages(c).load(simt::relaxed) / (Tuning.reserve << lg_used);
    if (share > pages) pages = share;
    unsigned const guided = num_free_now / Tuning.guide;
    if (guided < pages) pages = guided;
    unsigned const most = pages_used(c, 1u << Tuning.lg_run_slots);
    if (most < pages) pages = most;
    unsigned const longest = at.max_run_segments() << at.lg_pages;
    return longest < pages ? longest : pages;
  }

  // Pages that so many slots of class c lie in.
  [[nodiscard]] GPUHEAP_FN unsigned pages_used(unsigned c, unsigned slots) {
    return static_cast<unsigned>((uint64_t{slots} * size_classes::slot_bytes(c) + at.page_bytes() - 1) >> at.page_shift);
  }

  // Claims and prepares a fresh run for shard k of class c. Empty if there is no memory for a slot.
  GPUHEAP_FN shard_word fresh(unsigned c, unsigned k, unsigned lanes, unsigned excess, lazy_transit& transit) {
    unsigned const least = pages_used(c, 1);
    unsigned wanted = pages_wanted(c, lanes, excess, segments().free_hint());
    wanted = wanted < least ? least : pages_used(c, at.run_slots(c, wanted, false));
    // A large launch begins everywhere, a small one at the lowest place.
    unsigned const lg_used = lg_shards_used<Tuning>(at.lg_shards);
    unsigned const spread = lg_used < 3 ? 0 : ((c << 4 | k) * 0x9e3779b9u >> 4) | 1;
    segment_map::claim got = segments().claim_run(wanted, least, spread, transit);
    if (got.first == segment_map::none) return {};
    unsigned const page = got.of_segments ? got.first << at.lg_pages : got.first;
    unsigned const num_slots = at.run_slots(c, got.length, got.of_segments);
    unsigned const used = pages_used(c, num_slots);
    if (!got.of_segments && used < got.length) {
      segments().release_pages(page + used, got.length - used, moves());
      got.length = used;
    }
    // relaxed stores: published by the exchange of the shard word.
    uint64_t const generation = run_header{at.header(page).load(simt::relaxed)}.generation() + 1;
    at.header(page).store(run_header::fresh_slots(c, got.length, got.of_segments, generation).bits, simt::relaxed);
    at.slots_of(page).prepare(num_slots);
    run_tag::word tag = run_tag::of_slots(c, got.length, k, true).bits;
    // Ends: one pass per unit.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < got.length; ++i, tag += run_tag::one_further) at.unit_tag(page, got.of_segments, i).store(tag, simt::relaxed);
    held_pages(c).fetch_add(got.of_segments ? got.length << at.lg_pages : got.length, simt::relaxed);
    return shard_word::of_run(page, num_slots, false);
  }

  // The duty of the draw that found shard k of class c idle or reached its end: puts the next run there, or none. One thread; waits for
  // nobody. The next run comes with its first `wanted` slots drawn for the caller's group of `lanes`: whoever fetches a run has memory from
  // it, however soon another class takes the rest back. Returns the run as drawn at 0.
  GPUHEAP_COLD uint64_t replace(unsigned c, unsigned k, uint64_t old_bits, unsigned wanted, unsigned lanes) {
    shard_word const old{old_bits};
    lazy_transit transit{moves()};
    // A used-up run is in nobody's sight from the exchange until it is listed.
    if (old.has_run()) transit.begin();
    shard_word next{};
    if (listed_classes().has(c)) next = adopt_rich(c, warp_hash() + k >> 7, transit);
    if (!next.has_run()) {
      // relaxed: what is wanted now, as far as it is known.
      unsigned const asked = shard_word{at.shard(c, k).load(simt::relaxed)}.next() - old.num_slots();
      next = fresh(c, k, lanes, asked > wanted ? asked : wanted, transit);
    }
    bool const used_up = next.has_run() && wanted >= next.num_slots();
    if (used_up && next.is_sweep()) moves().begin();  // ended by account()
    // acq_rel: publishes the run's header and tags to those who draw; acquires the draws.
    at.shard(c, k).exchange(next.has_run() && !used_up ? next.bits + wanted : 0, simt::acq_rel);
    if (next.has_run() && !used_up) bound_classes().add(c);
    if (old.has_run() && !old.is_sweep()) unbind(old.page(), run_header::bound);
    if (used_up && !next.is_sweep()) unbind(next.page(), run_header::bound);
    transit.end();
    return next.bits;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
