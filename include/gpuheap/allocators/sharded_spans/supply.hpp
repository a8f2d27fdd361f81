// Where a shard's next span comes from: a partial span with many free slots, or free memory, as much as is wanted now.
//
// How long a fresh span is follows from the launch: every warp is expected to ask once as the caller does, and the span is at least what is
// asked for at this moment. A small launch that holds much of a class already gets half of that more. So a burst is served by one or two
// spans a shard, and a lone thread binds one page.
//
// Which it is: a launch reuses partial spans if it found some at its first look, until it has looked three times in vain. Where the heap is
// nearly full, or no memory could be claimed, each refill looks again. Small launches, which come again and again, reuse none while half of
// the heap is unused: fresh memory serves faster.
#pragma once

#include <gpuheap/allocators/sharded_spans/reset.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What may be tuned. The defaults are measured ones: docs/decisions/.
struct tuning {
  unsigned lg_span_slots = 19;     // a span has at most 2^this slots
  unsigned span_free_divisor = 8;  // a fresh span takes at most 1/guide of the free memory; 1/4 of that where the launch is small, 1/8
                                   // where the lanes of a large one ask for several classes
  unsigned reuse_free_divisor =
      5;                          // a partial span is reused if 1/rich of its sampled slots are free; an eighth of that if memory is short
  unsigned partial_samples = 32;  // partial spans sampled before a fresh one is taken, as many at once as the warp has lanes
  unsigned lg_warps_per_shard = 11;  // a launch of fewer than 2^this warps uses one shard of each class
  unsigned wait_polls = 64;          // times that a warp looks for the next span, before it searches for other memory
  // Of small launches, those that use one shard of a class, and come again and again.
  unsigned held_divisor = 2;   // a fresh span is at least 1/stock of what the class holds
  unsigned ample_eighths = 4;  // while less than spare/8 of the heap is held, fresh spans of whole segments are taken, and no listed ones
  // Off in measurements of what each idea buys (benchmarks/ablation).
  bool aggregates = true;          // the lanes that ask for one class claim together
  bool uses_cursor = true;         // partial spans are looked at one after the other, not from random places
  bool remembers_refusals = true;  // a refusal is remembered until something moves
  bool resets = true;              // a span none of whose slots is live begins anew at once (reset_spans.hpp)

  [[nodiscard]] GPUHEAP_HD constexpr unsigned small_span_divisor() const { return span_free_divisor * 4; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned mixed_span_divisor() const { return span_free_divisor * 8; }
};
// Constants of the policy, measured too.
constexpr unsigned samples_per_lane = 6;      // a warp of few lanes samples at most so many partial spans a lane
constexpr unsigned low_memory_divisor = 4;    // memory is short below 1/low_memory_divisor free
constexpr unsigned nearly_full_divisor = 16;  // below 1/nearly_full_divisor free, each refill looks at partial spans first
constexpr unsigned eight_shard_bytes = 256;   // from here on, a class that few lanes ask for has eight shards in place of four
constexpr unsigned lg_min_shards = 2;         // that a large launch uses for a class that all lanes ask for, however little memory it needs
constexpr unsigned launches_per_span = 4;     // spans of small launches last for this many of their kind
static_assert(1u << tuning{}.lg_span_slots <= shard_word::max_slots);

// Warps that this launch has.
[[nodiscard]] GPUHEAP_FN inline unsigned warps_of_launch() {
  return simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
}
// log2 of the shards that this launch uses of a class that all lanes ask for: as many as its warps can keep busy, so that a small launch
// holds little.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_FN inline unsigned lg_shards_used(unsigned lg_shards) {
  unsigned const times = warps_of_launch() >> Tuning.lg_warps_per_shard;
  // 1, then 4, 8 and 16 shards: where there are several, most can serve while one is without a span.
  unsigned const lg = times < 2 ? 0 : simt::highest_bit(times) + 1;
  return lg < lg_shards ? lg : lg_shards;
}
// Whether nearly all of the `here` lanes ask for what `group` of them do. A lane alone may be one of many that ask for different sizes.
[[nodiscard]] GPUHEAP_HD constexpr bool is_uniform(unsigned here, unsigned group) { return group * 4 >= here * 3 && here != 1; }
// The same for a class that `group` of the `here` lanes ask for: few, if others ask for others, lest a rare large group refill spans for
// shards that no other uses; and not many more than the launch needs segments, if every warp asks as this one does.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_FN inline unsigned lg_shards_used(layout const& at, unsigned c, unsigned here, unsigned group) {
  constexpr unsigned eight_shard_class = size_classes::class_of(eight_shard_bytes);
  unsigned const lg = lg_shards_used<Tuning>(at.lg_shards), slot = size_classes::slot_bytes(c);
  unsigned most = group * 5 < here ? (c >= eight_shard_class ? 3 : 2) : is_uniform(here, group) ? 4 : 3;
  unsigned const lg_bytes = simt::highest_bit(warps_of_launch()) + simt::highest_bit(group) + simt::highest_bit(slot) + 1;
  unsigned const lg_segments = lg_bytes < at.segment_shift() + lg_min_shards ? lg_min_shards : lg_bytes - at.segment_shift();
  if (lg_segments < most) most = lg_segments;
  return lg < most ? lg : most;
}
// Spreads consecutive warps evenly.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_hash() { return simt::global_warp() * 0x9e3779b9u; }
// The shard that a warp claims from, of 2^lg.
[[nodiscard]] GPUHEAP_FN inline unsigned shard_of_warp(unsigned lg) { return (warp_hash() >> 27) >> (5 - lg); }

// The leaf of the tree of whole segments that large launches look at first for shard k of class c. The shards of a class begin in different
// leaves, which is where claims meet; short spans keep to a quarter of the heap, so that long ones find whole leaves.
[[nodiscard]] GPUHEAP_HD constexpr unsigned first_leaf(unsigned c, unsigned k, unsigned leaves) {
  unsigned const i = ((c * 0x9e3779b9u >> 16) + (leaves < 16 ? k : k * (leaves >> 4))) % leaves;
  return size_classes::slot_bytes(c) < 1024 ? i / 4 : leaves / 4 + i - (i + 3) / 4;
}
namespace detail {
[[nodiscard]] GPUHEAP_HD constexpr bool first_leaves_exist() {
  // Ends: every leaf count up to 200, then a large one.
  for (unsigned leaves = 1; leaves <= 4096; leaves = leaves == 200 ? 4096 : leaves + 1) {
    // Ends: one pass per seventh class.
    for (unsigned c = 0; c < size_classes::count; c += 7) {
      if (first_leaf(c, c % 16, leaves) >= leaves || first_leaf(c, 15, leaves) >= leaves) return false;
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::first_leaves_exist());

// Who asks for a span: class, shard, slots wanted now, lanes that asked at first, log2 of the shards in use for them; log2 of how many
// times 16 bytes what they ask for is aligned to; and whether nearly all lanes of their warp asked.
struct demand {
  unsigned bits = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr demand of(unsigned c, unsigned k, unsigned wanted, unsigned lanes, unsigned lg,
                                                      unsigned lg_alignment, bool is_uniform) {
    return {c | k << 6 | wanted << 10 | lanes << 16 | lg << 22 | lg_alignment << 25 | unsigned{is_uniform} << 31};
  }
  // The same group's at another shard.
  [[nodiscard]] GPUHEAP_HD constexpr demand at(unsigned c, unsigned k, unsigned wanted) const {
    return {(bits & ~0xffffu) | c | k << 6 | wanted << 10};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return bits >> 6 & 15; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned wanted() const { return bits >> 10 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lanes() const { return bits >> 16 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_shards() const { return bits >> 22 & 7; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_uniform() const { return bits >> 31 != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_alignment() const { return bits >> 25 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_aligned() const { return lg_alignment() != 0; }
  // Whether all slots of class c are aligned as asked.
  [[nodiscard]] GPUHEAP_HD constexpr bool suits(unsigned c) const {
    return (size_classes::slot_bytes(c) & ((16u << lg_alignment()) - 1)) == 0;
  }
};

// How often a launch has looked for a partial span worth a reuse in vain; up to `enough`, for one class.
struct reuse_failures {
  static constexpr unsigned enough = 3;
  unsigned bits = 0;  // launch : 30 | count : 2

  [[nodiscard]] GPUHEAP_HD static constexpr reuse_failures no_partial_span(unsigned launch) { return {launch << 2 | enough}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool in(unsigned launch) const { return (bits ^ launch << 2) <= enough; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned count() const { return bits & 3; }
  [[nodiscard]] GPUHEAP_HD constexpr reuse_failures one_more(unsigned launch) const {
    return in(launch) ? reuse_failures{count() < enough ? bits + 1 : bits} : reuse_failures{launch << 2 | 1};
  }
};

// What a step of a replacement returns: a span as its shard word, claimed at 0, with flags in the lowest bits, which are 0 there.
struct refill_result {
  static constexpr uint64_t open = 1;   // a relocation is open
  static constexpr uint64_t stale = 2;  // the span was the last of its leaf of the listed ones
  static constexpr uint64_t slow_path =
      4;  // none yet: refill_slowly() is due, with `pages` from bit 8 on, the hand of the class from bit 32 on
  uint64_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr refill_result of(uint64_t what, bool is_open) { return {what | (is_open ? open : 0)}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_open() const { return (bits & open) != 0; }
  // With `later`: partial spans are looked at first; memory is short; the shard has a span that ends, so that a relocation will be open.
  static constexpr uint64_t reuses = 8, memory_is_low = 16, ending = 32;
  [[nodiscard]] GPUHEAP_HD static constexpr refill_result on_slow_path(unsigned pages, bool reuses_first, bool is_memory_low,
                                                                       bool ends_span, unsigned cursor) {
    return {uint64_t{cursor} << 32 | uint64_t{pages} << 8 | slow_path | (reuses_first ? reuses : 0) | (is_memory_low ? memory_is_low : 0) |
            (ends_span ? ending : 0)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned pages() const { return static_cast<unsigned>(bits) >> 8; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned cursor() const { return static_cast<unsigned>(bits >> 32); }
  [[nodiscard]] GPUHEAP_HD constexpr bool takes_slow_path() const { return (bits & (slow_path | open)) == slow_path; }
  [[nodiscard]] GPUHEAP_HD constexpr bool may_reuse() const { return takes_slow_path() && (bits & reuses) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_memory_low() const { return (bits & memory_is_low) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool ends_span() const { return (bits & ending) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_stale() const { return (bits & stale) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr shard_word span() const { return {bits & ~(open | stale)}; }
};

template <tuning Tuning>
struct refills : resets {
  // ---- reusing spans

  // What a warp is at while it looks for a partial span. In the frame: see control::request.
  struct candidate {
    static constexpr unsigned is_not_partial = 127;  // nobody reuses this, but who tries takes it from the list
    unsigned worth = 0;                              // 0: not worth a reuse; up to 64, the more of it is free; or is_not_partial
    unsigned page = 0, claims = 1;                   // claims: for each word, as many as it has free on average, so that most find one
  };
  struct partial_search {
    lane_mask here;
    unsigned owner;  // the lane in whose name alone spans are bound
    demand d;
    refill_result how;
    unsigned from, seed;
    bool open = false;   // a relocation, of the owner
    uint64_t found = 0;  // the owner's
    bitmap_tree::share mine{};
    candidate look{};
  };
  // Binds partial spans with many free slots, for a reuse, to the lanes that were `offered` to acquire_partial. All lanes of `here` call,
  // each with its own heap's words; they look for one lane after the other, all together. Returns what was found; empty if nothing was.
  GPUHEAP_COLD uint64_t acquire_best_partial(lane_mask here, demand d, refill_result offered) {
    uint64_t result = 0;
    // Ends: one pass per lane that may acquire_partial.
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, offered.may_reuse()); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      auto* const theirs = reinterpret_cast<refills*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      partial_search a{here, lane, {simt::shuffle(here, d.bits, lane)}, {simt::shuffle(here, offered.bits, lane)}, 0, 0};
      a.seed = simt::shuffle(here, warp_hash() + a.d.shard(), lane) >> 7;
      uint64_t const found = theirs->acquire_for(a);
      if (simt::lane_id() == lane) result = found;
    }
    return result;
  }
  // The same for one lane. Each lane looks at a span of its own, so that a launch waits for one look instead of for many, and the richest
  // of all these is taken. Returns it to that lane.
  GPUHEAP_COLD uint64_t acquire_for(partial_search& a) {
    // As the hand of a clock, from where the last look ended: a span comes up again when all others have, and by then most of it may be
    // free. Where all shards look at once, each from a place of its own.
    a.from = (keeps_cursor(a.d) ? a.how.cursor() : a.seed * 64) % (at.page_leaves() * 64);
    // Will be open anyway. Now the taking need not wait for it.
    if (a.how.ends_span() && simt::lane_id() == a.owner) {
      relocations().begin();
      a.open = true;
    }
    constexpr unsigned most = Tuning.partial_samples;
    unsigned const lanes = simt::popcount(a.here), in_passes = lanes * samples_per_lane;
    // Ends: after so many looks.
    GPUHEAP_NO_UNROLL
    for (unsigned left = in_passes > most ? most : in_passes;; left -= lanes) {
      sample_together(a);
      if (acquire_best(a) || left <= lanes) break;
    }
    return refill_result::of(a.found, a.open).bits;
  }
  [[nodiscard]] GPUHEAP_FN static bool keeps_cursor(demand d) { return Tuning.uses_cursor && !d.is_uniform(); }
  GPUHEAP_COLD void sample_together(partial_search& a) {
    find_candidates(a);
    // At once: another shard that looks now shall see others.
    if (keeps_cursor(a.d) && simt::lane_id() == a.owner) cursor_of(a.d.size_class()).store(a.from, simt::relaxed);
    a.look = {};
    if (a.mine.bit != bitmap_tree::none) a.look = sample_span(a.d.size_class(), a.mine.bit, a.seed, a.how.is_memory_low());
  }
  GPUHEAP_COLD void find_candidates(partial_search& a) {
    unsigned from = a.from;
    a.mine = at.partial_tree(a.d.size_class()).bit_for_each(a.here, from);
    a.from = from;
  }
  // Whether one of the looks led to a span, which is the owner's then.
  GPUHEAP_COLD bool acquire_best(partial_search& a) {
    bool finds = false;
    // Ends: one pass per lane: a span that is not adopted is another's, or listed no more.
    GPUHEAP_NO_UNROLL
    for (lane_mask best; !finds && (best = best_of(a.here, a.look.worth)) != 0;) {
      unsigned const lane = simt::lowest_bit(best);
      unsigned const page = simt::shuffle(a.here, a.look.page, lane), claims = simt::shuffle(a.here, a.look.claims, lane);
      if (simt::lane_id() == a.owner) acquire_candidate(a, page, claims);
      finds = simt::any_of(a.here, a.found != 0);
      if (simt::lane_id() == lane) a.look.worth = 0;
    }
    // Others wait for what was found. So not at once, as long as few lanes come to such leaves in vain.
    unsigned const empty = simt::popcount(simt::ballot(a.here, a.mine.empty_leaf != bitmap_tree::none)),
                   sampled = simt::popcount(simt::ballot(a.here, a.mine.bit != bitmap_tree::none));
    if (empty != 0 && (!finds || empty * 4 > sampled)) clear_stale_together(a.here, a.d.size_class(), a.mine.empty_leaf);
    return finds;
  }
  // Of the owner: binds the span at `page`, if it still can be.
  GPUHEAP_COLD void acquire_candidate(partial_search& a, unsigned page, unsigned claims) {
    unsigned const c = a.d.size_class();
    lazy_relocation relocation{relocations(), a.open};
    bool emptied = false;
    // What was bound, not what was seen: the span may be another than that of the look.
    span_header const now{this->acquire_partial(c, page, relocation, emptied)};
    a.open = relocation.open;
    if (now.is_active()) {
      a.found = shard_word::of_reused(page, slot_map::words_for(at.span_slots(now)), claims).bits | (emptied ? refill_result::stale : 0);
    } else if (emptied) {
      this->clear_stale_partial(at.partial_tree(c), c, page / 64);
    }
  }
  GPUHEAP_COLD candidate sample_span(unsigned c, unsigned page, unsigned seed, bool memory_is_low) {
    span_header const h{at.header(page).load(simt::relaxed)};
    if (!h.serves(c) || h.is_active()) return {candidate::is_not_partial, page, 1};
    unsigned const slots = at.span_slots(h);
    unsigned sampled = 1;
    unsigned const free = at.slots_of(page).sample(slots, seed >> 8, sampled);
    if (free == 0 || free * (memory_is_low ? Tuning.reuse_free_divisor * 8 : Tuning.reuse_free_divisor) < sampled) return {};
    unsigned const claims = free * (slots < slot_map::slots_per_word ? slots : slot_map::slots_per_word) / sampled;
    return {1 + free * 63 / sampled, page, claims == 0 ? 1 : claims};
  }
  // The lanes whose `worth`, below 128, is the highest; none, if all are 0.
  [[nodiscard]] GPUHEAP_FN static lane_mask best_of(lane_mask here, unsigned worth) {
    lane_mask best = simt::ballot(here, worth != 0);
    // Ends: one pass per bit.
    GPUHEAP_NO_UNROLL
    for (unsigned bit = 64; bit != 0; bit >>= 1) {
      lane_mask const have = best & simt::ballot(here, (worth & bit) != 0);
      if (have != 0) best = have;
    }
    return best;
  }
  // Drops the summary bits of the leaves that lanes of `here` found empty; none for a lane that has not.
  GPUHEAP_COLD void clear_stale_together(lane_mask here, unsigned c, unsigned leaf) {
    bool const leads = warp_group{here}.leads();
    if (leads) relocations().begin();
    // The barriers order the lanes' changes into the leader's move.
    simt::sync_warp(here);
    if (leaf != bitmap_tree::none) this->clear_stale_partial(at.partial_tree(c), c, leaf);
    simt::sync_warp(here);
    if (leads) relocations().end();
  }

  // ---- fresh spans

  // Pages that so many bytes lie in.
  [[nodiscard]] GPUHEAP_FN unsigned pages_for(uint64_t bytes) {
    return static_cast<unsigned>((bytes + at.page_bytes() - 1) >> at.page_shift);
  }
  // A launch whose spans are whole segments, from all over the heap. Others take what they need from the lowest place on, pages mostly.
  [[nodiscard]] GPUHEAP_FN bool is_large_launch() { return lg_shards_used<Tuning>(at.lg_shards) >= 2; }

  // Whether the heap, of which so many pages are free, is so little used that memory may lie idle.
  [[nodiscard]] GPUHEAP_FN bool has_ample_memory(unsigned free) {
    unsigned const all = pages_there;
    return Tuning.ample_eighths != 0 && all - free < all / 8 * Tuning.ample_eighths;
  }

  // Pages that a fresh span should have. `asked` slots are wanted now; `held` and `free` pages, as they were seen.
  [[nodiscard]] GPUHEAP_FN unsigned pages_wanted(demand d, unsigned asked, unsigned held, unsigned free) {
    unsigned const c = d.size_class(), slot = size_classes::slot_bytes(c);
    // What a shard hands out if every warp asks once as this one does.
    unsigned const slots = static_cast<unsigned>(uint64_t{d.lanes()} * warps_of_launch() >> d.lg_shards()) + 1;
    uint64_t const all = uint64_t{slots} * slot;
    unsigned pages = pages_for(all + all / 32);
    bool const large = is_large_launch();
    bool const of_one_class = large ? d.is_uniform() : d.lanes() * 4 >= simt::warp_lanes * 3;
    // Where several classes are in use at once, they share.
    unsigned const guided = free / (!large         ? Tuning.small_span_divisor()
                                    : of_one_class ? Tuning.span_free_divisor
                                                   : Tuning.mixed_span_divisor());
    if (!large && guided < pages && held < pages) {
      // More than a span should have: what the class does not hold yet. Longer spans would take cursor_order in being the one that is used
      // in part.
      pages -= held;
    } else {
      // Of a small launch enough for several like this one, if that is not much: a launch in which a span ends lasts longer.
      unsigned const ahead = large ? pages : pages * launches_per_span;
      unsigned const some = of_one_class ? free / Tuning.small_span_divisor() : free >> 10;
      unsigned const more = ahead < some ? ahead : some;
      if (pages < more) pages = more;
      // A small launch's span lasts for several.
      if (pages < 4) {
        unsigned const several = pages_for(all * 8);
        pages = several < 4 ? several : 4;
      }
      unsigned const share = large ? 0 : held / (Tuning.held_divisor << d.lg_shards());
      if (share > pages) pages = share;
    }
    if (guided < pages) pages = guided;
    // What is asked for at this moment, all the same: the last of the memory goes to those who wait for it, not to each of them a page.
    unsigned const least = pages_for(uint64_t{asked == 0 ? 1 : asked} * slot);
    if (pages < least) pages = least;
    unsigned const most = pages_for(uint64_t{slot} << Tuning.lg_span_slots);
    if (most < pages) pages = most;
    unsigned const longest = at.max_span_segments(c) << at.lg_pages;
    return longest != 0 && longest < pages ? longest : pages;
  }

  // Claims about so many pages for a fresh span: whole segments, pages of broken segments, a segment to break. Each returns a claim
  // as {first page : 22, length : 7, of segments : 1, untidy : 1} from bit 2 on, or 0. One thread.
  GPUHEAP_COLD refill_result claim_segments(demand d, unsigned pages, bool is_open) {
    lazy_relocation relocation{relocations(), is_open};
    segment_map::claim const got = segments().claim_segments(pages, at.max_span_segments(d.size_class()), spread(d), relocation);
    return pack(got, relocation.open);
  }
  GPUHEAP_COLD refill_result claim_pages(demand d, unsigned pages, unsigned looks, bool is_open) {
    lazy_relocation relocation{relocations(), is_open};
    unsigned const most = 1u << at.lg_pages;
    if (pages > most) pages = most;
    unsigned const least = looks == few_looks ? pages : pages_for(size_classes::slot_bytes(d.size_class()));
    segment_map::claim const got = segments().claim_pages(pages, least, looks, spread(d), relocation);
    return pack(got, relocation.open);
  }
  GPUHEAP_COLD refill_result break_segment(demand d, unsigned pages, bool is_open) {
    lazy_relocation relocation{relocations(), is_open};
    unsigned const most = 1u << at.lg_pages;
    segment_map::claim const got = segments().break_segment(pages < most ? pages : most, spread(d), relocation);
    return pack(got, relocation.open);
  }
  static constexpr unsigned few_looks = 3;
  // A large launch begins everywhere, a small one at the lowest place.
  [[nodiscard]] GPUHEAP_FN unsigned spread(demand d) { return is_large_launch() ? (d.bits & 0x3ff) * 0x9e3779b9u >> 4 | 1 : 0; }

  [[nodiscard]] GPUHEAP_FN refill_result pack(segment_map::claim got, bool is_open) {
    if (got.first == segment_map::none) return refill_result::of(0, is_open);
    unsigned const first = got.of_segments ? got.first << at.lg_pages : got.first;
    return refill_result::of(
        uint64_t{first} << 2 | uint64_t{got.length} << 24 | uint64_t{got.of_segments} << 31 | uint64_t{got.stale} << 32, is_open);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim unpack(uint64_t claimed) {
    bool const of_segments = (claimed >> 31 & 1) != 0;
    unsigned const page = static_cast<unsigned>(claimed >> 2) & (shard_word::max_pages - 1);
    return {of_segments ? page >> at.lg_pages : page, static_cast<unsigned>(claimed >> 24) & 127, of_segments, (claimed >> 32 & 1) != 0};
  }

  // Makes a span of what was claimed. One thread, during a relocation. Published by install(), settled by settle().
  GPUHEAP_FN shard_word prepare(demand d, unsigned page, unsigned length, bool of_segments) {
    unsigned const c = d.size_class(), num_slots = at.span_slots(c, length, of_segments);
    if (!of_segments) length = at.units_for(c, num_slots, false);
    // relaxed, all: published by the exchange of the shard word.
    at.header(page).fetch_add(span_header::to_new_span(c, length, of_segments), simt::relaxed);
    at.slots_of(page).prepare(num_slots);
    this->write_tags(page, of_segments, span_tag::of_slots(c, length, d.shard(), true), length);
    return shard_word::of_span(page, num_slots);
  }
  // What can wait until the span is in use: counting, tidying, giving back what the span had no use for.
  GPUHEAP_FN void finish_new_span(demand d, segment_map::claim got) {
    segments().finish_claim(got);
    unsigned length = got.length;
    if (!got.of_segments) {
      unsigned const c = d.size_class();
      length = at.units_for(c, at.span_slots(c, length, false), false);
      if (length < got.length) segments().release_pages(got.first + length, got.length - length, relocations());
    }
    held_pages(d.size_class()).fetch_add(got.of_segments ? length << at.lg_pages : length, simt::relaxed);
  }

  // Publishes a span in its shard, its first `wanted` slots claimed; an empty word if there is none or these are all.
  GPUHEAP_FN void install(demand d, shard_word next) {
    unsigned const c = d.size_class(), k = d.shard();
    bool const used_up = next.next() + d.wanted() >= next.num_claims();
    if (used_up && next.is_reused()) relocations().begin();  // ended by end_reuse()
    // consume_release: publishes the span's header and tags to those who claim; acquires the claims.
    at.shard(c, k).exchange(used_up ? 0 : next.bits + d.wanted(), simt::consume_release);
    if (!used_up) active_classes().add(c);
  }
  // What remains to be done once shard d.shard() has `next` in place of `old`.
  GPUHEAP_FN void installed(demand d, shard_word old, shard_word next, bool is_open) {
    if (old.has_span() && !old.is_reused()) this->deactivate(old.page(), span_header::active, true);
    if (next.has_span() && next.next() + d.wanted() >= next.num_claims() && !next.is_reused())
      this->deactivate(next.page(), span_header::active, true);
    if (is_open) relocations().end();
  }

  // A replacement, in the frame: see control::request.
  struct slow_refill {
    demand d;
    shard_word old;
    unsigned pages;
    refill_result got;
    segment_map::claim claimed;
  };
  // The duty of the claim that found a shard idle or reached its end: puts the next span there, or none. One thread; waits for nobody. The
  // next span comes with its first `wanted` slots claimed for the caller's group: whoever fetches a span has memory from it, however soon
  // another class takes the rest back. Returns the span as claimed at 0, or what refill_slowly() is to do.
  //
  // This is what a burst of requests waits for, on a processor that has none of its code at hand: little code, its loads in flight
  // together, and all that is rare out of line.
  GPUHEAP_COLD uint64_t refill(demand d, shard_word old) {
    unsigned const c = d.size_class(), k = d.shard();
    bitmap_tree const whole = at.whole_tree();
    unsigned const leaves = bitmap_tree::leaves_for(segments_there);
    bool const large_launch = is_large_launch();
    // Where the lanes of a large launch ask for several classes, these begin in different leaves, where claims meet. Else memory is taken
    // from the lowest place on, and the shards' spans lie side by side.
    bool const apart = large_launch && !d.is_uniform();
    // relaxed, all: hints.
    unsigned const held = held_pages(c).load(simt::relaxed), free = segments().free_hint(),
                   failed_reuses = failed_reuses_of(c).load(simt::relaxed), cursor = cursor_of(c).load(simt::relaxed);
    bool const inactive = static_cast<int>(inactive_spans(c).load(simt::relaxed)) > 0;
    shard_word const now{at.shard(c, k).load(simt::relaxed)};
    uint64_t const low_leaves = whole.mid(0).load(simt::relaxed);

    unsigned const asked = now.next() - old.num_claims() > d.wanted() ? now.next() - old.num_claims() : d.wanted();
    unsigned const pages = pages_wanted(d, asked, held, free);
    bool const memory_is_low = free < pages_there / low_memory_divisor;
    // If the class has none at the launch's first look, those that it has later are the launch's own.
    reuse_failures const vain{failed_reuses};
    bool const first_look = !vain.in(simt::launch_id()), ample_eighths = !large_launch && has_ample_memory(free);
    bool const hopeful = first_look || vain.count() < reuse_failures::enough || free < pages_there / nearly_full_divisor;
    bool const reuses = Tuning.partial_samples != 0 && inactive && !ample_eighths && hopeful;
    if (first_look && !inactive) failed_reuses_of(c).store(reuse_failures::no_partial_span(simt::launch_id()).bits, simt::relaxed);
    // Rounded to whole segments: up where more than a quarter of one is left over. Less than four fifths of one are pages.
    unsigned const least_pages = 52;
    unsigned n = pages < least_pages ? 0 : (pages + 48) >> at.lg_pages;
    if (n == 0 && (large_launch || (ample_eighths && free >> at.lg_pages > Tuning.small_span_divisor() * 4))) n = 1;
    if (n > at.max_span_segments(c)) n = at.max_span_segments(c);
    // Hardly a whole segment is left: not worth eight looks.
    bool const used_up = free >> at.lg_pages == 0;
    refill_result const slow_path = refill_result::on_slow_path(pages, reuses, memory_is_low, old.has_span(), cursor);
    if (n == 0 || reuses || used_up) return slow_path.bits;
    // Which row of n segments from there on is this shard's: 64 / n rows lie in a leaf. If it is not free, this shard goes on behind the
    // rows of all of them.
    bool const side_by_side = large_launch && !apart;
    unsigned const nth = side_by_side ? k : 0, leaves_before = nth / (64 / n);
    unsigned const further = side_by_side ? at.num_shards() / (64 / n) : 0;
    unsigned leaf = apart || low_leaves == 0 ? first_leaf(c, k, leaves) : (simt::lowest_bit(low_leaves) + leaves_before) % leaves;
    unsigned const skipped = apart ? d.bits * 0x9e3779b9u >> 26 : (nth - leaves_before * (64 / n)) * n;
    uint64_t bits = whole.leaf(leaf).load(simt::relaxed);
    // Ends: four leaves, then four more for half as many segments.
    GPUHEAP_NO_UNROLL
    for (unsigned tries = 0; tries < 8; ++tries) {
      if (tries == 4 && n > 1) n >>= 1;
      // A small launch takes the lowest row, if that has a quarter of it.
      uint64_t starts = structures::consecutive(bits, large_launch ? n : (n + 3) / 4);
      uint64_t const above = starts & ~simt::low_bits(skipped);
      if (above != 0) starts = above;
      if (starts != 0) {
        unsigned const at_bit = simt::lowest_bit(starts), there = structures::run_length(bits, at_bit), row = there < n ? there : n;
        uint64_t const mask = simt::low_bits(row) << at_bit;
        // Also for the used-up span, which is in nobody's sight from the exchange until it is listed.
        relocations().begin();
        bool emptied = false;
        uint64_t const got = whole.take_leaf_only(leaf, mask, emptied);
        if (got == mask) {
          slow_refill f{d, old, 0, refill_result::of(0, true), {leaf * 64 + at_bit, row, true, emptied}};
          f.got = refill_result::of(prepare_claimed(f).bits, true);
          return publish(f);
        }
        segments().put_back(leaf, got, emptied);
        relocations().end();
      }
      leaf = (leaf + (further == 0 ? 1 : further)) % leaves;
      bits = whole.leaf(leaf).load(simt::relaxed);
    }
    return slow_path.bits;
  }

  // The same where the first look did not do.
  // `adopted`: what acquire_best_partial() found, if the lane was to look.
  GPUHEAP_COLD uint64_t refill_slowly(demand d, shard_word old, refill_result how, refill_result reused) {
    slow_refill f{d, old, how.pages(), reused, {}};
    // See refill().
    if (old.has_span() && !reused.is_open()) {
      relocations().begin();
      f.got.bits |= refill_result::open;
    }
    if (!f.got.span().has_span()) {
      // relaxed, both: hints.
      if (how.may_reuse())
        failed_reuses_of(d.size_class())
            .store(reuse_failures{failed_reuses_of(d.size_class()).load(simt::relaxed)}.one_more(simt::launch_id()).bits, simt::relaxed);
      claim_for(f);
      // No memory is unused: what was freed is all that there is, and worth every look from now on. relaxed: a hint.
      if (!f.got.span().has_span()) failed_reuses_of(d.size_class()).store(0, simt::relaxed);
    }
    return publish(f);
  }
  GPUHEAP_COLD void claim_for(slow_refill& f) {
    f.got = claim_segments(f.d, f.pages, f.got.is_open());
    if (f.got.span().bits == 0) f.got = claim_pages(f.d, f.pages, few_looks, f.got.is_open());
    if (f.got.span().bits == 0) f.got = break_segment(f.d, f.pages, f.got.is_open());
    if (f.got.span().bits == 0) f.got = claim_pages(f.d, f.pages, ~0u, f.got.is_open());
    if (f.got.span().bits == 0) return;
    f.claimed = unpack(f.got.bits);
    f.got = refill_result::of(prepare_claimed(f).bits, f.got.is_open());
  }
  GPUHEAP_COLD shard_word prepare_claimed(slow_refill& f) {
    return prepare(f.d, f.claimed.of_segments ? f.claimed.first << at.lg_pages : f.claimed.first, f.claimed.length, f.claimed.of_segments);
  }
  GPUHEAP_COLD uint64_t publish(slow_refill& f) {
    install(f.d, f.got.span());
    if (f.claimed.first != segment_map::none) finish_new_span_cold(f.d, f.claimed);
    if (f.got.is_stale()) this->clear_stale_partial(at.partial_tree(f.d.size_class()), f.d.size_class(), f.got.span().page() / 64);
    uint64_t const next = f.got.span().bits;
    installed(f.d, f.old, f.got.span(), f.got.is_open());
    return next;
  }
  GPUHEAP_COLD void finish_new_span_cold(demand d, segment_map::claim got) { finish_new_span(d, got); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
