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
  unsigned foresight = 32;          // what is wanted now may be this part of what will be
  unsigned ahead = 4;               // the largest launches get runs for this many of their kind
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

// What a step of a replacement returns: a run as its shard word, or a claim; and whether a transit is open, in the lowest
// bit: a run begins at an even slot.
struct supplied {
  static constexpr uint64_t open = 1;
  uint64_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr supplied of(uint64_t what, bool is_open) { return {what | (is_open ? open : 0)}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_open() const { return (bits & open) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr shard_word run() const { return {bits & ~open}; }
};

// The steps of replacing a run, each out of line and calling nothing out of line itself: so a kernel's registers are what malloc_slow()
// keeps and what one step needs, not the sum of a chain.
template <tuning Tuning>
struct supply : runs {
  // Binds a listed run with many free slots, for a sweep. Empty if there is none among a few. One thread.
  GPUHEAP_COLD supplied adopt_rich(unsigned c, unsigned seed, bool is_open) {
    lazy_transit transit{moves(), is_open};
    shard_word found{};
    unsigned tries = Tuning.adoption_tries;
    bitmap_tree const listed = at.list_tree(c);
    for_each_listed(listed, seed, transit, [&](unsigned page) {
      run_header const h{at.header(page).load(simt::relaxed)};
      unsigned const num_slots = at.run_slots(h);
      if (h.serves(c) && !h.is_bound()) {
        if (tries == 0) return true;
        --tries;
        unsigned sampled = 1;
        unsigned const free = at.slots_of(page).sample(num_slots, seed >> 8, sampled);
        if (free * Tuning.rich < sampled || free == 0) return false;
      }
      if (!adopt(listed, c, page, transit)) return false;
      // Not `num_slots`: the run may be another than that of the first look.
      found = shard_word::of_run(page, at.run_slots(run_header{at.header(page).load(simt::relaxed)}), true);
      return true;
    });
    return supplied::of(found.bits, transit.open);
  }

  // Where an adopted run has groups that are entirely free, their first stretch is handed out like fresh slots, which costs draws less than
  // a sweep. Returns the run for shard k, or 0. One thread.
  GPUHEAP_COLD uint64_t refresh(uint64_t adopted, unsigned c, unsigned k) {
    shard_word const sweep{adopted};
    unsigned const page = sweep.page();
    auto const free = at.slots_of(page).take_stretch(sweep.num_slots());
    if (free.first == free.end) return 0;
    unsigned const groups = slot_map::groups_for(slot_map::words_for(free.end - free.first));
    // relaxed: published with the run.
    run_header const h{at.header(page).fetch_sub(groups * run_header::full_one, simt::relaxed)};
    this->write_tags(page, h.of_segments(), run_tag::of_slots(c, h.length(), k, true), h.length());
    return shard_word::of_run(page, free.end, false).bits + free.first;
  }

  // Pages that so many slots of class c lie in.
  [[nodiscard]] GPUHEAP_FN unsigned pages_used(unsigned c, unsigned slots) {
    return static_cast<unsigned>((uint64_t{slots} * size_classes::slot_bytes(c) + at.page_bytes() - 1) >> at.page_shift);
  }

  // Pages that a fresh run for shard k of class c should have. `wanted` slots are wanted by the caller's group, `lanes` of which asked
  // first; the shard had a run of `old_slots`. One thread.
  [[nodiscard]] GPUHEAP_COLD unsigned pages_wanted(unsigned c, unsigned k, unsigned old_slots, unsigned wanted, unsigned lanes) {
    // relaxed: what is asked for now, as far as it is known.
    unsigned excess = shard_word{at.shard(c, k).load(simt::relaxed)}.next() - old_slots;
    if (excess < wanted) excess = wanted;
    unsigned const lg_used = lg_shards_used<Tuning>(at.lg_shards);
    unsigned const warps = simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
    // Slots that a shard hands out if every warp asks once as this one does.
    uint64_t const of_all = (uint64_t{lanes} * warps >> lg_used) + 1;
    unsigned all = of_all < shard_word::max_slots ? static_cast<unsigned>(of_all) : shard_word::max_slots;
    unsigned const ahead = lg_used == layout::max_lg_shards ? Tuning.ahead : 1;
    if (all * ahead < shard_word::max_slots) all *= ahead;
    unsigned slots = excess * Tuning.foresight < all ? excess * Tuning.foresight : all;
    // A small launch's run lasts for several.
    unsigned const some = all * 8 < 8192 ? all * 8 : 8192;
    if (some > slots && pages_used(c, some) <= 4) slots = some;
    if (excess > slots) slots = excess;
    if (slots > 1u << Tuning.lg_run_slots) slots = 1u << Tuning.lg_run_slots;
    unsigned pages = pages_used(c, slots);
    unsigned const share = held_pages(c).load(simt::relaxed) / (Tuning.reserve << lg_used);
    if (share > pages) pages = share;
    unsigned const guided = segments().free_hint() / Tuning.guide;
    if (guided < pages) pages = guided;
    unsigned const most = pages_used(c, 1u << Tuning.lg_run_slots);
    if (most < pages) pages = most;
    unsigned const longest = at.max_run_segments() << at.lg_pages;
    if (longest < pages) pages = longest;
    unsigned const used = pages_used(c, at.run_slots(c, pages, false));
    return used != 0 ? used : pages_used(c, 1);
  }

  // Claims about so many pages for shard k of class c: whole segments, pages of broken segments, a segment to break. Each returns a claim
  // as {first page : 20, length : 7, of segments : 1, untidy : 1} from bit 1 on, or 0. One thread.
  GPUHEAP_COLD supplied claim_segments(unsigned c, unsigned k, unsigned pages, bool is_open) {
    lazy_transit transit{moves(), is_open};
    segment_map::claim const got = segments().claim_segments(pages, spread(c, k), transit);
    return pack(got, transit.open);
  }
  GPUHEAP_COLD supplied claim_pages(unsigned c, unsigned k, unsigned pages, unsigned looks, bool is_open) {
    lazy_transit transit{moves(), is_open};
    unsigned const most = 1u << at.lg_pages;
    if (pages > most) pages = most;
    segment_map::claim const got =
        segments().claim_pages(pages, looks == few_looks ? pages : pages_used(c, 1), looks, spread(c, k), transit);
    return pack(got, transit.open);
  }
  GPUHEAP_COLD supplied break_segment(unsigned c, unsigned k, unsigned pages, bool is_open) {
    lazy_transit transit{moves(), is_open};
    unsigned const most = 1u << at.lg_pages;
    segment_map::claim const got = segments().break_segment(pages < most ? pages : most, spread(c, k), transit);
    return pack(got, transit.open);
  }
  static constexpr unsigned few_looks = 3;
  // A large launch begins everywhere, a small one at the lowest place.
  [[nodiscard]] GPUHEAP_FN unsigned spread(unsigned c, unsigned k) {
    return lg_shards_used<Tuning>(at.lg_shards) < 3 ? 0 : ((c << 4 | k) * 0x9e3779b9u >> 4) | 1;
  }
  [[nodiscard]] GPUHEAP_FN supplied pack(segment_map::claim got, bool is_open) {
    if (got.first == segment_map::none) return supplied::of(0, is_open);
    unsigned const first = got.of_segments ? got.first << at.lg_pages : got.first;
    return supplied::of(uint64_t{first} << 1 | uint64_t{got.length} << 21 | uint64_t{got.of_segments} << 28 | uint64_t{got.untidy} << 29,
                        is_open);
  }

  [[nodiscard]] GPUHEAP_FN segment_map::claim unpack(uint64_t claimed) {
    bool const of_segments = (claimed >> 28 & 1) != 0;
    unsigned const page = static_cast<unsigned>(claimed >> 1) & 0xfffff;
    return {of_segments ? page >> at.lg_pages : page, static_cast<unsigned>(claimed >> 21) & 127, of_segments, (claimed >> 29 & 1) != 0};
  }

  // Makes a run of class c for shard k of what was claimed. One thread, in a transit. Published by install(), settled by settle().
  GPUHEAP_COLD uint64_t prepare(unsigned c, unsigned k, uint64_t claimed) {
    segment_map::claim const got = unpack(claimed);
    unsigned const page = static_cast<unsigned>(claimed >> 1) & 0xfffff;
    unsigned length = got.length;
    unsigned const num_slots = at.run_slots(c, length, got.of_segments);
    if (!got.of_segments) length = pages_used(c, num_slots);
    // relaxed, all: published by the exchange of the shard word.
    at.header(page).fetch_add(run_header::to_fresh_slots(c, length, got.of_segments), simt::relaxed);
    at.slots_of(page).prepare(num_slots);
    this->write_tags(page, got.of_segments, run_tag::of_slots(c, length, k, true), length);
    return shard_word::of_run(page, num_slots, false).bits;
  }
  // What can wait until the run is in use: counting, tidying, giving back what the run had no use for.
  GPUHEAP_COLD void settle(unsigned c, uint64_t claimed) {
    segment_map::claim const got = unpack(claimed);
    segments().settle(got);
    unsigned length = got.length;
    if (!got.of_segments) {
      length = pages_used(c, at.run_slots(c, length, false));
      if (length < got.length) segments().release_pages(got.first + length, got.length - length, moves());
    }
    held_pages(c).fetch_add(got.of_segments ? length << at.lg_pages : length, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
