// Where a shard's next run comes from: a listed run with many free slots, or free memory, as much as is wanted now.
//
// How long a fresh run is follows from the launch: every warp is expected to ask once as the caller does, and the run is at least what is
// asked for at this moment. A small launch that holds much of a class already gets half of that more. So a burst is served by one or two
// runs a shard, and a lone thread binds one page.
//
// Which it is: a launch sweeps listed runs if it found some at its first look, until it has looked three times in vain. Where the heap is
// nearly full, or no memory could be claimed, each refill looks again. Small launches, which come again and again, sweep none while half of
// the heap is unused: fresh memory serves faster.
#pragma once

#include <gpuheap/allocators/sharded_runs/rewind.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// What may be tuned. The defaults are measured ones: docs/decisions/.
struct tuning {
  unsigned lg_run_slots = 19;     // a run has at most 2^this slots
  unsigned guide = 8;             // a fresh run takes at most 1/guide of the free memory; 1/4 of that where the launch is small, or its
                                  // lanes ask for several classes
  unsigned rich = 5;              // a listed run is swept if 1/rich of its sampled slots are free; an eighth of that if memory is short
  unsigned adoption_looks = 32;   // listed runs sampled before a fresh one is taken, as many at once as the warp has lanes
  unsigned lg_large_launch = 12;  // a launch of 2^this warps is large: its runs are made for one launch of its kind
  unsigned looks = 64;            // times that a warp looks for the next run, before it searches for other memory
  // Of small launches, those that use one shard of a class, and come again and again.
  unsigned stock = 2;  // a fresh run is at least 1/stock of what the class holds
  unsigned spare = 4;  // while less than spare/8 of the heap is held, fresh runs of whole segments are taken, and no listed ones
  // Off in measurements of what each idea buys (benchmarks/ablation).
  bool together = true;   // the lanes that ask for one class draw together
  bool in_turn = true;    // listed runs are looked at one after the other, not from random places
  bool remembers = true;  // a refusal is remembered until something moves
  bool rewinds = true;    // a run none of whose slots is live begins anew at once (rewind.hpp)

  [[nodiscard]] GPUHEAP_HD constexpr unsigned guide_shared() const { return guide * 4; }
};
// Constants of the policy, measured too.
constexpr unsigned adoption_passes = 6;  // a warp of few lanes samples at most so many listed runs a lane
constexpr unsigned scarce = 4;           // memory is short below 1/scarce free
constexpr unsigned nearly_full = 16;     // below 1/nearly_full free, each refill looks at listed runs first
constexpr unsigned bulky_bytes = 256;    // a class that few lanes ask for has four shards, from here on eight, from 8 times that on sixteen
constexpr unsigned lg_shards_of_large = 6;  // a launch has a shard for each warp in 2^(lg_large_launch - this), as far as there are so many
constexpr unsigned lg_segments_a_shard = 3;  // segments that a small launch needs for each shard that it uses, a power of two
constexpr unsigned lg_least_shards = 2;      // that a large launch uses for a class that all lanes ask for, however little memory it needs
constexpr unsigned launches_ahead = 4;       // runs of small launches last for this many of their kind
static_assert(1u << tuning{}.lg_run_slots <= shard_word::max_slots);

// Warps that this launch has.
[[nodiscard]] GPUHEAP_FN inline unsigned warps_of_launch() {
  return simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
}
// Whether this launch is a large one, where the heap has several shards for each class.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_FN inline bool is_large_launch(layout const& at) {
  return at.lg_shards >= 2 && warps_of_launch() >> Tuning.lg_large_launch != 0;
}
// Whether nearly all of the `here` lanes ask for what `group` of them do. A lane alone may be one of many that ask for different sizes.
[[nodiscard]] GPUHEAP_HD constexpr bool is_uniform(unsigned here, unsigned group) { return group * 4 >= here * 3 && here != 1; }
// log2 of the shards that this launch uses of class c, which `group` of the `here` lanes of this warp ask for.
//
// The warps of a shard wait while it gets its next run, so more shards let less of a launch wait. Three limits hold. Each shard has as many
// warps as a large launch has at least for each of 2^lg_shards_of_large. A class that few lanes ask for has few shards, lest a rare large
// group fetch runs for shards that no other group uses. If every warp asks as this one does, each shard hands out several segments; of a
// large launch, whose memory is given out as segments anyway, one segment, and four shards may use a part of theirs.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_FN inline unsigned lg_shards_used(layout const& at, unsigned c, unsigned here, unsigned group) {
  constexpr unsigned lg_warps = Tuning.lg_large_launch > lg_shards_of_large ? Tuning.lg_large_launch - lg_shards_of_large : 0;
  unsigned const warps = warps_of_launch(), times = warps >> lg_warps, slot = size_classes::slot_bytes(c);
  // 1, then 4, 8 and 16 shards: where there are several, most can serve while one is without a run.
  unsigned most = times < 2 ? 0 : simt::highest_bit(times) + 1;
  unsigned const of_few = slot < bulky_bytes ? 2 : slot < bulky_bytes * 8 ? 3 : 4;
  unsigned const by_group = group * 5 < here || slot >= bulky_bytes * 8 ? of_few : is_uniform(here, group) ? 4 : 3;
  if (by_group < most) most = by_group;
  unsigned const lg_bytes = simt::highest_bit(warps) + simt::highest_bit(group) + simt::highest_bit(slot) + 1;
  unsigned const lg_segments = lg_bytes < at.segment_shift() ? 0 : lg_bytes - at.segment_shift();
  unsigned const by_memory = is_large_launch<Tuning>(at) ? (lg_segments < lg_least_shards ? lg_least_shards : lg_segments)
                                                         : (lg_segments < lg_segments_a_shard ? 0 : lg_segments - lg_segments_a_shard);
  if (by_memory < most) most = by_memory;
  return most < at.lg_shards ? most : at.lg_shards;
}
// Spreads consecutive warps evenly.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_hash() { return simt::global_warp() * 0x9e3779b9u; }
// The shard that a warp draws from, of 2^lg.
[[nodiscard]] GPUHEAP_FN inline unsigned shard_of_warp(unsigned lg) { return (warp_hash() >> 27) >> (5 - lg); }

// The leaf of the tree of whole segments that large launches look at first for shard k of class c. The shards of a class begin in different
// leaves, which is where claims meet; short runs keep to a quarter of the heap, so that long ones find whole leaves.
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

// Who asks for a run: class, shard, slots wanted now, lanes that asked at first, log2 of the shards in use for them; log2 of how many
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

// How often a launch has looked for a listed run worth a sweep in vain; up to `enough`, for one class.
struct looks_in_vain {
  static constexpr unsigned enough = 3;
  unsigned bits = 0;  // launch : 30 | count : 2

  [[nodiscard]] GPUHEAP_HD static constexpr looks_in_vain none_there(unsigned launch) { return {launch << 2 | enough}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool in(unsigned launch) const { return (bits ^ launch << 2) <= enough; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned count() const { return bits & 3; }
  [[nodiscard]] GPUHEAP_HD constexpr looks_in_vain one_more(unsigned launch) const {
    return in(launch) ? looks_in_vain{count() < enough ? bits + 1 : bits} : looks_in_vain{launch << 2 | 1};
  }
};

// What a step of a replacement returns: a run as its shard word, drawn at 0, with flags in the lowest bits, which are 0 there.
struct supplied {
  static constexpr uint64_t open = 1;    // a relocation is open
  static constexpr uint64_t untidy = 2;  // the run was the last of its leaf of the listed ones
  static constexpr uint64_t later = 4;  // none yet: fetch_slowly() is due, with `pages` from bit 8 on, the hand of the class from bit 32 on
  uint64_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr supplied of(uint64_t what, bool is_open) { return {what | (is_open ? open : 0)}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_open() const { return (bits & open) != 0; }
  // With `later`: listed runs are looked at first; memory is short; the shard has a run that ends, so that a relocation will be open.
  static constexpr uint64_t adopts = 8, scarce = 16, ending = 32;
  [[nodiscard]] GPUHEAP_HD static constexpr supplied slowly(unsigned pages, bool adopts_first, bool is_scarce, bool ends_run,
                                                            unsigned hand) {
    return {uint64_t{hand} << 32 | uint64_t{pages} << 8 | later | (adopts_first ? adopts : 0) | (is_scarce ? scarce : 0) |
            (ends_run ? ending : 0)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned pages() const { return static_cast<unsigned>(bits) >> 8; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned hand() const { return static_cast<unsigned>(bits >> 32); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_later() const { return (bits & (later | open)) == later; }
  [[nodiscard]] GPUHEAP_HD constexpr bool may_adopt() const { return is_later() && (bits & adopts) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_scarce() const { return (bits & scarce) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool ends_run() const { return (bits & ending) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_untidy() const { return (bits & untidy) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr shard_word run() const { return {bits & ~(open | untidy)}; }
};

template <tuning Tuning>
struct supply : rewinds {
  // ---- reusing runs

  // What a warp is at while it looks for a listed run. In the frame: see control::request.
  struct listing {
    static constexpr unsigned is_no_run = 127;  // nobody adopts this, but who tries takes it from the list
    unsigned worth = 0;                         // 0: not worth a sweep; up to 64, the more of it is free; or is_no_run
    unsigned page = 0, draws = 1;               // draws: for each word, as many as it has free on average, so that most find one
  };
  struct adoption {
    lane_mask here;
    unsigned owner;  // the lane in whose name alone runs are bound
    demand d;
    supplied how;
    unsigned from, seed;
    bool open = false;   // a relocation, of the owner
    uint64_t found = 0;  // the owner's
    bitmap_tree::share mine{};
    listing look{};
  };
  // Binds listed runs with many free slots, for a sweep, to the lanes that were `offered` to adopt. All lanes of `here` call,
  // each with its own heap's words; they look for one lane after the other, all together. Returns what was found; empty if nothing was.
  GPUHEAP_COLD uint64_t adopt_rich(lane_mask here, demand d, supplied offered) {
    uint64_t result = 0;
    // Ends: one pass per lane that may adopt.
    GPUHEAP_NO_UNROLL
    for (lane_mask rest = simt::ballot(here, offered.may_adopt()); rest != 0; rest &= rest - 1) {
      unsigned const lane = simt::lowest_bit(rest);
      auto* const theirs = reinterpret_cast<supply*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      adoption a{here, lane, {simt::shuffle(here, d.bits, lane)}, {simt::shuffle(here, offered.bits, lane)}, 0, 0};
      a.seed = simt::shuffle(here, warp_hash() + a.d.shard(), lane) >> 7;
      uint64_t const found = theirs->adopt_for(a);
      if (simt::lane_id() == lane) result = found;
    }
    return result;
  }
  // The same for one lane. Each lane looks at a run of its own, so that a launch waits for one look instead of for many, and the richest of
  // all these is taken. Returns it to that lane.
  GPUHEAP_COLD uint64_t adopt_for(adoption& a) {
    // As the hand of a clock, from where the last look ended: a run comes up again when all others have, and by then most of it may be
    // free. Where all shards look at once, each from a place of its own.
    a.from = (goes_in_turn(a.d) ? a.how.hand() : a.seed * 64) % (at.page_leaves() * 64);
    // Will be open anyway. Now the taking need not wait for it.
    if (a.how.ends_run() && simt::lane_id() == a.owner) {
      moves().begin();
      a.open = true;
    }
    constexpr unsigned most = Tuning.adoption_looks;
    unsigned const lanes = simt::popcount(a.here), in_passes = lanes * adoption_passes;
    // Ends: after so many looks.
    GPUHEAP_NO_UNROLL
    for (unsigned left = in_passes > most ? most : in_passes;; left -= lanes) {
      look_together(a);
      if (take_best(a) || left <= lanes) break;
    }
    return supplied::of(a.found, a.open).bits;
  }
  [[nodiscard]] GPUHEAP_FN static bool goes_in_turn(demand d) { return Tuning.in_turn && !d.is_uniform(); }
  GPUHEAP_COLD void look_together(adoption& a) {
    find_listed(a);
    // At once: another shard that looks now shall see others.
    if (goes_in_turn(a.d) && simt::lane_id() == a.owner) hand_of(a.d.size_class()).store(a.from, simt::relaxed);
    a.look = {};
    if (a.mine.bit != bitmap_tree::none) a.look = look_at(a.d.size_class(), a.mine.bit, a.seed, a.how.is_scarce());
  }
  GPUHEAP_COLD void find_listed(adoption& a) {
    unsigned from = a.from;
    a.mine = at.list_tree(a.d.size_class()).bit_for_each(a.here, from);
    a.from = from;
  }
  // Whether one of the looks led to a run, which is the owner's then.
  GPUHEAP_COLD bool take_best(adoption& a) {
    bool finds = false;
    // Ends: one pass per lane: a run that is not adopted is another's, or listed no more.
    GPUHEAP_NO_UNROLL
    for (lane_mask best; !finds && (best = best_of(a.here, a.look.worth)) != 0;) {
      unsigned const lane = simt::lowest_bit(best);
      unsigned const page = simt::shuffle(a.here, a.look.page, lane), draws = simt::shuffle(a.here, a.look.draws, lane);
      if (simt::lane_id() == a.owner) take_listed(a, page, draws);
      finds = simt::any_of(a.here, a.found != 0);
      if (simt::lane_id() == lane) a.look.worth = 0;
    }
    // Others wait for what was found. So not at once, as long as few lanes come to such leaves in vain.
    unsigned const empty = simt::popcount(simt::ballot(a.here, a.mine.empty_leaf != bitmap_tree::none)),
                   looked = simt::popcount(simt::ballot(a.here, a.mine.bit != bitmap_tree::none));
    if (empty != 0 && (!finds || empty * 4 > looked)) tidy_together(a.here, a.d.size_class(), a.mine.empty_leaf);
    return finds;
  }
  // Of the owner: binds the run at `page`, if it still can be.
  GPUHEAP_COLD void take_listed(adoption& a, unsigned page, unsigned draws) {
    unsigned const c = a.d.size_class();
    lazy_relocation relocation{moves(), a.open};
    bool emptied = false;
    // What was bound, not what was seen: the run may be another than that of the look.
    run_header const now{this->adopt(c, page, relocation, emptied)};
    a.open = relocation.open;
    if (now.is_bound()) {
      a.found = shard_word::of_sweep(page, slot_map::words_for(at.run_slots(now)), draws).bits | (emptied ? supplied::untidy : 0);
    } else if (emptied) {
      this->tidy_list(at.list_tree(c), c, page / 64);
    }
  }
  GPUHEAP_COLD listing look_at(unsigned c, unsigned page, unsigned seed, bool scarce) {
    run_header const h{at.header(page).load(simt::relaxed)};
    if (!h.serves(c) || h.is_bound()) return {listing::is_no_run, page, 1};
    unsigned const slots = at.run_slots(h);
    unsigned sampled = 1;
    unsigned const free = at.slots_of(page).sample(slots, seed >> 8, sampled);
    if (free == 0 || free * (scarce ? Tuning.rich * 8 : Tuning.rich) < sampled) return {};
    unsigned const draws = free * (slots < slot_map::slots_per_word ? slots : slot_map::slots_per_word) / sampled;
    return {1 + free * 63 / sampled, page, draws == 0 ? 1 : draws};
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
  GPUHEAP_COLD void tidy_together(lane_mask here, unsigned c, unsigned leaf) {
    bool const leads = warp_group{here}.leads();
    if (leads) moves().begin();
    // The barriers order the lanes' changes into the leader's move.
    simt::sync_warp(here);
    if (leaf != bitmap_tree::none) this->tidy_list(at.list_tree(c), c, leaf);
    simt::sync_warp(here);
    if (leads) moves().end();
  }

  // ---- fresh runs

  // Pages that so many bytes lie in.
  [[nodiscard]] GPUHEAP_FN unsigned pages_for(uint64_t bytes) {
    return static_cast<unsigned>((bytes + at.page_bytes() - 1) >> at.page_shift);
  }
  // A launch whose runs are whole segments, from all over the heap. Others take what they need from the lowest place on, pages mostly.
  [[nodiscard]] GPUHEAP_FN bool is_large_launch() { return sharded::is_large_launch<Tuning>(at); }

  // Whether the heap, of which so many pages are free, is so little used that memory may lie idle.
  [[nodiscard]] GPUHEAP_FN bool has_to_spare(unsigned free) {
    unsigned const all = pages_there;
    return Tuning.spare != 0 && all - free < all / 8 * Tuning.spare;
  }

  // Pages that a fresh run should have. `asked` slots are wanted now; `held` and `free` pages, as they were seen.
  [[nodiscard]] GPUHEAP_FN unsigned pages_wanted(demand d, unsigned asked, unsigned held, unsigned free) {
    unsigned const c = d.size_class(), slot = size_classes::slot_bytes(c);
    // What a shard hands out if every warp asks once as this one does.
    unsigned const slots = static_cast<unsigned>(uint64_t{d.lanes()} * warps_of_launch() >> d.lg_shards()) + 1;
    uint64_t const all = uint64_t{slots} * slot;
    unsigned pages = pages_for(all + all / 32);
    bool const large = is_large_launch();
    bool const of_one_class = large ? d.is_uniform() : d.lanes() * 4 >= simt::warp_lanes * 3;
    // Where several classes are in use at once, they share.
    unsigned const guided = free / (large && of_one_class ? Tuning.guide : Tuning.guide_shared());
    if (!large && guided < pages && held < pages) {
      // More than a run should have: what the class does not hold yet. Longer runs would take turns in being the one that is used in part.
      pages -= held;
    } else {
      // Of a small launch enough for several like this one, if that is not much: a launch in which a run ends lasts longer.
      unsigned const ahead = large || d.lg_shards() != 0 ? pages : pages * launches_ahead;
      unsigned const some = of_one_class ? free / Tuning.guide_shared() : free >> 10;
      unsigned const more = ahead < some ? ahead : some;
      if (pages < more) pages = more;
      // A small launch's run lasts for several.
      if (pages < 4) {
        unsigned const several = pages_for(all * 8);
        pages = several < 4 ? several : 4;
      }
      unsigned const share = large ? 0 : held / (Tuning.stock << d.lg_shards());
      if (share > pages) pages = share;
    }
    if (guided < pages) pages = guided;
    // What is asked for at this moment, all the same: the last of the memory goes to those who wait for it, not to each of them a page.
    unsigned const least = pages_for(uint64_t{asked == 0 ? 1 : asked} * slot);
    if (pages < least) pages = least;
    unsigned const most = pages_for(uint64_t{slot} << Tuning.lg_run_slots);
    if (most < pages) pages = most;
    unsigned const longest = at.max_run_segments(c) << at.lg_pages;
    return longest != 0 && longest < pages ? longest : pages;
  }

  // Claims about so many pages for a fresh run: whole segments, pages of broken segments, a segment to break. Each returns a claim
  // as {first page : 22, length : 7, of segments : 1, untidy : 1} from bit 2 on, or 0. One thread.
  GPUHEAP_COLD supplied claim_segments(demand d, unsigned pages, bool is_open) {
    lazy_relocation relocation{moves(), is_open};
    segment_map::claim const got = segments().claim_segments(pages, at.max_run_segments(d.size_class()), spread(d), relocation);
    return pack(got, relocation.open);
  }
  GPUHEAP_COLD supplied claim_pages(demand d, unsigned pages, unsigned looks, bool is_open) {
    lazy_relocation relocation{moves(), is_open};
    unsigned const most = 1u << at.lg_pages;
    if (pages > most) pages = most;
    unsigned const least = looks == few_looks ? pages : pages_for(size_classes::slot_bytes(d.size_class()));
    segment_map::claim const got = segments().claim_pages(pages, least, looks, spread(d), relocation);
    return pack(got, relocation.open);
  }
  GPUHEAP_COLD supplied break_segment(demand d, unsigned pages, bool is_open) {
    lazy_relocation relocation{moves(), is_open};
    unsigned const most = 1u << at.lg_pages;
    segment_map::claim const got = segments().break_segment(pages < most ? pages : most, spread(d), relocation);
    return pack(got, relocation.open);
  }
  static constexpr unsigned few_looks = 3;
  // A large launch begins everywhere, a small one at the lowest place.
  [[nodiscard]] GPUHEAP_FN unsigned spread(demand d) { return is_large_launch() ? (d.bits & 0x3ff) * 0x9e3779b9u >> 4 | 1 : 0; }

  [[nodiscard]] GPUHEAP_FN supplied pack(segment_map::claim got, bool is_open) {
    if (got.first == segment_map::none) return supplied::of(0, is_open);
    unsigned const first = got.of_segments ? got.first << at.lg_pages : got.first;
    return supplied::of(uint64_t{first} << 2 | uint64_t{got.length} << 24 | uint64_t{got.of_segments} << 31 | uint64_t{got.untidy} << 32,
                        is_open);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim unpack(uint64_t claimed) {
    bool const of_segments = (claimed >> 31 & 1) != 0;
    unsigned const page = static_cast<unsigned>(claimed >> 2) & (shard_word::max_pages - 1);
    return {of_segments ? page >> at.lg_pages : page, static_cast<unsigned>(claimed >> 24) & 127, of_segments, (claimed >> 32 & 1) != 0};
  }

  // Makes a run of what was claimed. One thread, during a relocation. Published by install(), settled by settle().
  GPUHEAP_FN shard_word prepare(demand d, unsigned page, unsigned length, bool of_segments) {
    unsigned const c = d.size_class(), num_slots = at.run_slots(c, length, of_segments);
    if (!of_segments) length = at.units_for(c, num_slots, false);
    // relaxed, all: published by the exchange of the shard word.
    at.header(page).fetch_add(run_header::to_fresh_slots(c, length, of_segments), simt::relaxed);
    at.slots_of(page).prepare(num_slots);
    this->write_tags(page, of_segments, run_tag::of_slots(c, length, d.shard(), true), length);
    return shard_word::of_run(page, num_slots);
  }
  // What can wait until the run is in use: counting, tidying, giving back what the run had no use for.
  GPUHEAP_FN void settle(demand d, segment_map::claim got) {
    segments().settle(got);
    unsigned length = got.length;
    if (!got.of_segments) {
      unsigned const c = d.size_class();
      length = at.units_for(c, at.run_slots(c, length, false), false);
      if (length < got.length) segments().release_pages(got.first + length, got.length - length, moves());
    }
    held_pages(d.size_class()).fetch_add(got.of_segments ? length << at.lg_pages : length, simt::relaxed);
  }

  // Publishes a run in its shard, its first `wanted` slots drawn; an empty word if there is none or these are all.
  GPUHEAP_FN void install(demand d, shard_word next) {
    unsigned const c = d.size_class(), k = d.shard();
    bool const used_up = next.next() + d.wanted() >= next.num_draws();
    if (used_up && next.is_sweep()) moves().begin();  // ended by end_sweep()
    // consume_release: publishes the run's header and tags to those who draw; acquires the draws.
    at.shard(c, k).exchange(used_up ? 0 : next.bits + d.wanted(), simt::consume_release);
    if (!used_up) bound_classes().add(c);
  }
  // What remains to be done once shard d.shard() has `next` in place of `old`.
  GPUHEAP_FN void installed(demand d, shard_word old, shard_word next, bool is_open) {
    if (old.has_run() && !old.is_sweep()) this->unbind(old.page(), run_header::bound, true);
    if (next.has_run() && next.next() + d.wanted() >= next.num_draws() && !next.is_sweep())
      this->unbind(next.page(), run_header::bound, true);
    if (is_open) moves().end();
  }

  // A replacement, in the frame: see control::request.
  struct slow_fetch {
    demand d;
    shard_word old;
    unsigned pages;
    supplied got;
    segment_map::claim claimed;
  };
  // The duty of the draw that found a shard idle or reached its end: puts the next run there, or none. One thread; waits for nobody. The
  // next run comes with its first `wanted` slots drawn for the caller's group: whoever fetches a run has memory from it, however soon
  // another class takes the rest back. Returns the run as drawn at 0, or what fetch_slowly() is to do.
  //
  // This is what a burst of requests waits for, on a processor that has none of its code at hand: little code, its loads in flight
  // together, and all that is rare out of line.
  GPUHEAP_COLD uint64_t fetch(demand d, shard_word old) {
    unsigned const c = d.size_class(), k = d.shard();
    bitmap_tree const whole = at.whole_tree();
    unsigned const leaves = bitmap_tree::leaves_for(segments_there);
    bool const large_launch = is_large_launch();
    // Where the lanes of a large launch ask for several classes, these begin in different leaves, where claims meet. Else memory is taken
    // from the lowest place on, and the shards' runs lie side by side.
    bool const apart = large_launch && !d.is_uniform();
    // relaxed, all: hints.
    unsigned const held = held_pages(c).load(simt::relaxed), free = segments().free_hint(), looked = looked_in(c).load(simt::relaxed),
                   hand = hand_of(c).load(simt::relaxed);
    bool const idle = static_cast<int>(idle_runs(c).load(simt::relaxed)) > 0;
    shard_word const now{at.shard(c, k).load(simt::relaxed)};
    uint64_t const low_leaves = whole.mid(0).load(simt::relaxed);

    unsigned const asked = now.next() - old.num_draws() > d.wanted() ? now.next() - old.num_draws() : d.wanted();
    unsigned const pages = pages_wanted(d, asked, held, free);
    bool const scarce = free < pages_there / sharded::scarce;
    // If the class has none at the launch's first look, those that it has later are the launch's own.
    looks_in_vain const vain{looked};
    bool const first_look = !vain.in(simt::launch_id()), spare = !large_launch && has_to_spare(free);
    bool const hopeful = first_look || vain.count() < looks_in_vain::enough || free < pages_there / nearly_full;
    bool const adopts = Tuning.adoption_looks != 0 && idle && !spare && hopeful;
    if (first_look && !idle) looked_in(c).store(looks_in_vain::none_there(simt::launch_id()).bits, simt::relaxed);
    // Rounded to whole segments: up where more than a quarter of one is left over, and always where a small launch uses several shards,
    // which meet the ends of their runs one after another. Less than four fifths of one are pages.
    unsigned const least_pages = 52, round_up = !large_launch && d.lg_shards() != 0 ? 63 : 48;
    unsigned n = pages < least_pages ? 0 : (pages + round_up) >> at.lg_pages;
    if (n == 0 && (large_launch || (spare && free >> at.lg_pages > Tuning.guide_shared() * 4))) n = 1;
    if (n > at.max_run_segments(c)) n = at.max_run_segments(c);
    // Hardly a whole segment is left: not worth eight looks.
    bool const used_up = free >> at.lg_pages == 0;
    supplied const later = supplied::slowly(pages, adopts, scarce, old.has_run(), hand);
    if (n == 0 || adopts || used_up) return later.bits;
    // Which row of n segments from there on is this shard's: 64 / n rows lie in a leaf. If it is not free, this shard goes on behind the
    // rows of all of them.
    bool const side_by_side = d.lg_shards() != 0 && !apart;
    unsigned const nth = side_by_side ? k : 0, leaves_before = nth / (64 / n);
    unsigned const further = side_by_side ? at.num_shards() / (64 / n) : 0;
    unsigned leaf = apart || low_leaves == 0 ? first_leaf(c, k, leaves) : (simt::lowest_bit(low_leaves) + leaves_before) % leaves;
    unsigned const skipped = (nth - leaves_before * (64 / n)) * n;
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
        // Also for the used-up run, which is in nobody's sight from the exchange until it is listed.
        moves().begin();
        bool emptied = false;
        uint64_t const got = whole.take_untidily(leaf, mask, emptied);
        if (got == mask) {
          slow_fetch f{d, old, 0, supplied::of(0, true), {leaf * 64 + at_bit, row, true, emptied}};
          f.got = supplied::of(prepare_claimed(f).bits, true);
          return publish(f);
        }
        segments().put_back(leaf, got, emptied);
        moves().end();
      }
      leaf = (leaf + (further == 0 ? 1 : further)) % leaves;
      bits = whole.leaf(leaf).load(simt::relaxed);
    }
    return later.bits;
  }

  // The same where the first look did not do.
  // `adopted`: what adopt_rich() found, if the lane was to look.
  GPUHEAP_COLD uint64_t fetch_slowly(demand d, shard_word old, supplied how, supplied adopted) {
    slow_fetch f{d, old, how.pages(), adopted, {}};
    // See fetch().
    if (old.has_run() && !adopted.is_open()) {
      moves().begin();
      f.got.bits |= supplied::open;
    }
    if (!f.got.run().has_run()) {
      // relaxed, both: hints.
      if (how.may_adopt())
        looked_in(d.size_class())
            .store(looks_in_vain{looked_in(d.size_class()).load(simt::relaxed)}.one_more(simt::launch_id()).bits, simt::relaxed);
      claim_for(f);
      // No memory is unused: what was freed is all that there is, and worth every look from now on. relaxed: a hint.
      if (!f.got.run().has_run()) looked_in(d.size_class()).store(0, simt::relaxed);
    }
    return publish(f);
  }
  GPUHEAP_COLD void claim_for(slow_fetch& f) {
    f.got = claim_segments(f.d, f.pages, f.got.is_open());
    if (f.got.run().bits == 0) f.got = claim_pages(f.d, f.pages, few_looks, f.got.is_open());
    if (f.got.run().bits == 0) f.got = break_segment(f.d, f.pages, f.got.is_open());
    if (f.got.run().bits == 0) f.got = claim_pages(f.d, f.pages, ~0u, f.got.is_open());
    if (f.got.run().bits == 0) return;
    f.claimed = unpack(f.got.bits);
    f.got = supplied::of(prepare_claimed(f).bits, f.got.is_open());
  }
  GPUHEAP_COLD shard_word prepare_claimed(slow_fetch& f) {
    return prepare(f.d, f.claimed.of_segments ? f.claimed.first << at.lg_pages : f.claimed.first, f.claimed.length, f.claimed.of_segments);
  }
  GPUHEAP_COLD uint64_t publish(slow_fetch& f) {
    install(f.d, f.got.run());
    if (f.claimed.first != segment_map::none) settle_claimed(f.d, f.claimed);
    if (f.got.is_untidy()) this->tidy_list(at.list_tree(f.d.size_class()), f.d.size_class(), f.got.run().page() / 64);
    uint64_t const next = f.got.run().bits;
    installed(f.d, f.old, f.got.run(), f.got.is_open());
    return next;
  }
  GPUHEAP_COLD void settle_claimed(demand d, segment_map::claim got) { settle(d, got); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
