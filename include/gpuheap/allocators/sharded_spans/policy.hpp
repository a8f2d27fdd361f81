// The decisions of the default allocator: how many shards a launch uses, how much memory a refill takes, from where, and whether it reuses
// a partial span. refill.hpp acts on these decisions.
//
// These are pure functions of plain numbers: they read no word of a heap and change none. A wrong number costs time or memory, and never
// correctness, as long as a plan keeps what refill_plan promises. tests/allocators/sharded_policy_test.cpp checks this promise and the
// rules. docs/allocator.md has the rules in order with their numbers, and what a change of one takes.
#pragma once

#include <gpuheap/allocators/sharded_spans/layout.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/segment_map.hpp>
#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/span_words.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The parameters. The defaults were measured: docs/decisions/.
struct tuning {
  unsigned lg_span_slots = 19;      // log2 of the most slots of a span
  unsigned span_free_divisor = 8;   // a new span takes at most 1/this of the free pages
  unsigned reuse_free_divisor = 5;  // a partial span is reused if at least 1/this of its sampled slots are free
  unsigned partial_samples = 32;    // partial spans that a refill samples before it takes unused memory; 0: it reuses none
  unsigned lg_large_launch = 12;    // log2 of the warps of a large launch, whose spans are made for one launch
  unsigned wait_polls = 64;         // times that a warp polls the shard words for a refilled span, before it searches
  unsigned take_over_divisor = 4;   // idle spans of other classes are taken over while less than 1/this of the pages are free; 0: none is
  // For small launches, which programs repeat many times:
  unsigned held_divisor = 1;  // a new span has at least 1/this of the pages that its class holds
  // eighths of the heap's pages: while fewer are held, refills take unused memory and reuse no partial span; 0: no memory is ample
  unsigned ample_eighths = 4;
  // Switched off only to measure the gain by each idea (benchmarks/ablation):
  bool aggregates = true;          // the lanes of a warp that ask for one class claim together
  bool uses_cursor = true;         // partial spans are sampled one after the other, not from random places
  bool remembers_refusals = true;  // requests of a class that was refused are refused at once until memory is relocated
  bool resets = true;              // an active span of which nothing is live is reset at once (reset.hpp)
  bool borrows = true;             // requests of small launches take a slot of a larger class rather than wait for a refill
  // Switched off, since no GPU has measured it:
  bool prepares = false;  // a heap begins with a span for each small class (prepared.hpp), and with its first metadata in the L2

  // The divisor that takes the place of span_free_divisor in small launches, and in large ones whose lanes ask for several classes, since
  // these classes share the free pages.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shared_span_divisor() const { return span_free_divisor * 4; }
};
constexpr unsigned samples_per_lane = 6;        // partial spans that each lane of a warp samples in one refill, at most
constexpr unsigned low_memory_divisor = 4;      // memory is low while less than 1/this of the heap's pages are free
constexpr unsigned nearly_full_divisor = 16;    // while less than 1/this of the heap's pages are free, no failures end the sampling
constexpr unsigned small_class_divisor = 32;    // memory is ample for a class that holds less than 1/this of the free pages
constexpr unsigned low_reuse_factor = 8;        // while memory is low, a partial span with 1/this as many free slots is worth a reuse
constexpr unsigned eight_shard_bytes = 256;     // bytes of a slot from which on a small group of lanes uses eight shards, not four
constexpr unsigned sixteen_shard_bytes = 2048;  // the same for sixteen shards
constexpr unsigned lg_shards_of_large = 6;      // 2^(lg_large_launch - this) warps keep one shard busy
constexpr unsigned lg_segments_per_shard = 3;   // a small launch uses one shard for each 2^this segments that it needs
constexpr unsigned lg_min_shards = 2;           // log2 of the shards that a large launch may use although it needs little memory
constexpr unsigned lone_lane_segments = 1;      // segments of the span for a lane that asks alone, at most; k lanes: k * k times as many
constexpr unsigned alone_held_divisor = 8;      // for a lane that asks alone, a span has at least 1/this of what its shard holds on average
constexpr unsigned launches_per_span = 4;       // small launches that a new span lasts for, if they use one shard
constexpr unsigned growth_divisor = 4;          // a launch that is repeated gets a span longer by 1/this than the last one
constexpr unsigned looks_for_row = 8;           // times that a refill finds its row in none of four leaves, before it accepts half of a row
constexpr unsigned looks_for_half = 2;          // further such times, before it takes the slow path
constexpr unsigned looks_for_idle = 8;          // times that a warp looks at four shard words in each lane for an idle span
constexpr unsigned lg_places_per_row = 2;       // log2 of the places for each row of a class, if the rows of several classes lie apart
constexpr unsigned min_segment_pages = 52;      // a new span of fewer pages shares a segment with other spans
constexpr unsigned borrowed_classes = 2;        // size classes above its own in which a request looks for a slot rather than wait
constexpr unsigned segment_round_up = 48;       // a remainder of 64 - this pages or more becomes another segment
// A tuning as a type with a short name. The name is part of the name of every kernel and function, and every object file contains those.
struct shipped {
  static constexpr tuning tuned{};
};
template <tuning Tuning>
struct tuned_as {
  static constexpr tuning tuned = Tuning;
};
static_assert(1u << tuning{}.lg_span_slots <= structures::shard_word::max_slots);

// ---- shards

// Whether `group` lanes, which ask for one class, are three quarters or more of the `lanes` lanes of their warp that ask. A single lane
// never counts as such a group: it may be one of many that ask for several classes.
[[nodiscard]] GPUHEAP_HD constexpr bool is_uniform(unsigned lanes, unsigned group) { return group * 4 >= lanes * 3 && lanes != 1; }

// Whether a launch of `warps` warps is a large one, in a heap of 2^lg_shards shards for each class. A heap with fewer than four has no
// large launches.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool is_large_launch(unsigned warps, unsigned lg_shards) {
  return lg_shards >= 2 && warps >> Tuning.lg_large_launch != 0;
}
// log2 of the shards of class c that a launch of `warps` warps uses: 0 to 4. In the caller's warp, `lanes` lanes ask, `group` of them for
// class c.
//
// The warps of a shard wait while it is refilled, so more shards let less of a launch wait. Three limits hold. A launch has no more shards
// than its warps keep busy. A class for which few lanes ask has few shards, since a rare large group would refill shards that no other
// group uses. And if every warp asks as this one does, each shard hands out several segments. In a large launch, whose spans are whole
// segments, one segment for each shard is enough, and up to four shards may hand out less.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr unsigned lg_shards_of_group(unsigned warps, layout const& at, unsigned c, unsigned lanes,
                                                               unsigned group) {
  constexpr unsigned lg_warps = Tuning.lg_large_launch > lg_shards_of_large ? Tuning.lg_large_launch - lg_shards_of_large : 0;
  unsigned const times = warps >> lg_warps, slot = size_classes::slot_bytes(c);
  // One shard, or 4, 8 or 16, but not 2: of several shards, most shall serve while one is refilled.
  unsigned most = times < 2 ? 0 : simt::highest_bit(times) + 1;
  unsigned const of_few = slot < eight_shard_bytes ? 2 : slot < sixteen_shard_bytes ? 3 : 4;
  unsigned const by_group = group * 5 < lanes || slot >= sixteen_shard_bytes ? of_few : is_uniform(lanes, group) ? 4 : 3;
  if (by_group < most) most = by_group;
  unsigned const lg_bytes = simt::highest_bit(warps) + simt::highest_bit(group) + simt::highest_bit(slot) + 1;
  unsigned const lg_segments = lg_bytes < at.segment_shift() ? 0 : lg_bytes - at.segment_shift();
  unsigned const by_memory = is_large_launch<Tuning>(warps, at.lg_shards) ? (lg_segments < lg_min_shards ? lg_min_shards : lg_segments)
                             : lg_segments < lg_segments_per_shard        ? 0
                                                                          : lg_segments - lg_segments_per_shard;
  if (by_memory < most) most = by_memory;
  return most < at.lg_shards ? most : at.lg_shards;
}

// Whether a group of lanes takes slots of a larger class while its own class is refilled. In a launch of few warps whose lanes ask for many
// classes, nearly every warp would wait for nearly every refill. Groups of nearly all lanes wait, as large launches do: all of their lanes
// would go to the next class, and empty its span.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool borrows(unsigned warps, unsigned lg_shards, bool is_uniform) {
  return Tuning.borrows && !is_uniform && !is_large_launch<Tuning>(warps, lg_shards);
}
// Whether a slot of the larger class c is small enough for a request of class c0: at most half as large again.
[[nodiscard]] GPUHEAP_HD constexpr bool is_near(unsigned c0, unsigned c) {
  return size_classes::slot_bytes(c) * 2 <= size_classes::slot_bytes(c0) * 3;
}

// ---- reuse of partial spans

// How often refills have sampled partial spans of one class in vain since a refill last found one, up to `enough` times. After `enough`
// times, no later refill of that launch samples any, and none of the next 2^(lg pause) - 1 launches does. That number is 0 at first, and
// becomes 1, 3, 7 and 15 as further launches sample in vain. Launches that run at the same time share one record, so they need not sample
// in vain separately.
//
//   bit  0       2          5
//        | count | lg pause | launch |
struct reuse_failures {
  static constexpr unsigned enough = 3, max_lg_pause = 4, launch_at = 5;
  static constexpr unsigned side_by_side = 16;  // a launch that began up to so many launches before the recorded one shares its record
  unsigned bits = 0;

  // The record of a launch whose first refill of the class meets no partial span. Its later refills sample none: such spans would be the
  // launch's own.
  [[nodiscard]] GPUHEAP_HD constexpr reuse_failures no_partial_span(unsigned launch) const {
    return {launch << launch_at | lg_pause() << 2 | enough};
  }
  // Whether this record holds for `launch`.
  [[nodiscard]] GPUHEAP_HD constexpr bool in(unsigned launch) const {
    constexpr unsigned launches = ~0u >> launch_at;
    return ((launch - (bits >> launch_at) + side_by_side) & launches) < side_by_side + (1u << lg_pause());
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned count() const { return bits & 3; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_pause() const { return bits >> 2 & 7; }
  // The record after one more sampling in vain.
  [[nodiscard]] GPUHEAP_HD constexpr reuse_failures one_more(unsigned launch) const {
    if (in(launch)) return {count() < enough ? bits + 1 : bits};
    unsigned const longer = count() == 0 ? 0 : lg_pause() < max_lg_pause ? lg_pause() + 1 : max_lg_pause;
    return {launch << launch_at | longer << 2 | 1};
  }
};

// Whether a partial span is worth its reuse: `free` of the `sampled` slots are free.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool is_worth_reuse(unsigned free, unsigned sampled, bool memory_is_low) {
  return free != 0 && free * (memory_is_low ? Tuning.reuse_free_divisor * low_reuse_factor : Tuning.reuse_free_divisor) >= sampled;
}
// How much a partial span of `slots` slots is worth to a refill, if `free` of the `sampled` slots are free: 1 to 64. It rises with the
// number of the free slots and not with their share: the more slots a span serves, the longer the launch goes on before its next refill.
[[nodiscard]] GPUHEAP_HD constexpr unsigned worth_of_partial(unsigned free, unsigned sampled, unsigned slots) {
  unsigned const n = static_cast<unsigned>(uint64_t{free} * slots / sampled);
  if (n == 0) return 1;
  // The logarithm in quarters: its integer part, and the next two bits of n.
  unsigned const lg = simt::highest_bit(n), worth = 1 + lg * 4 + ((n << 2 >> lg) & 3);
  return worth < 64 ? worth : 64;
}
// How many claims each word of a reused span of `slots` slots gets: the average number of free slots in a word, so that most claims find
// one.
[[nodiscard]] GPUHEAP_HD constexpr unsigned claims_for_each_word(unsigned free, unsigned sampled, unsigned slots, unsigned slots_per_word) {
  unsigned const claims = free * (slots < slots_per_word ? slots : slots_per_word) / sampled;
  return claims == 0 ? 1 : claims;
}

// ---- refills

// The facts by which a refill decides. Counts of pages are hints: other threads change them meanwhile.
struct refill_input {
  unsigned slot_bytes;      // bytes of a slot of the class
  unsigned lanes;           // lanes of the warp that asked for the class
  bool is_uniform;          // those are nearly all lanes of the warp that asked
  bool is_alone;            // one lane of the warp asked, and no other in the same call
  unsigned asked;           // slots for which threads wait now
  unsigned warps;           // warps of the launch
  unsigned lg_shards;       // log2 of the shards of the class that the launch uses for groups like this one
  bool is_large_launch;     // the result of is_large_launch()
  unsigned launch;          // simt::launch_id(): a hint, which mostly rises by one from a launch to the next
  unsigned page_shift;      // log2 of the bytes of a page
  unsigned lg_pages;        // log2 of the pages of a segment
  unsigned max_segments;    // segments of the longest span of the class; 0 if a segment is longer than that
  unsigned all_pages;       // pages of the heap
  unsigned free_pages;      // pages that belong to no span and to no large allocation
  unsigned held_pages;      // pages of the class's spans
  unsigned ended_slots;     // slots of the span that is used up; 0 if the shard had none
  bool has_partial;         // the class may have a partial span
  bool others_idle;         // another class has an active span, and no refill of this launch has looked for an idle one in vain
  reuse_failures failures;  // the record of the class
};
// The plan of a refill. `pages` holds one slot or more, and so does `takes_over` unless it is 0; both are below 2^24 (refill_result).
// `segments` is at most 64 and at most max_segments, and 0 if `reuses`.
struct refill_plan {
  unsigned pages;         // pages that a new span should have: the slow path claims about so many
  unsigned segments;      // segments that the fast path claims side by side instead; 0: the slow path is taken
  unsigned takes_over;    // pages that an idle span of another class should have, if the refill takes one over; 0: it takes none
  bool reuses;            // the slow path samples partial spans before it claims unused memory
  bool memory_is_low;     // partial spans with few free slots are worth a reuse, and half of a row will do after one look
  bool finds_no_partial;  // this is the launch's first refill of the class, and there is no partial span
  bool wants_long_row;    // the fast path looks once at further leaves for a row of all `segments`, before a shorter one will do
};

// Pages that hold `bytes` bytes.
[[nodiscard]] GPUHEAP_HD constexpr unsigned pages_of(uint64_t bytes, unsigned page_shift) {
  return static_cast<unsigned>((bytes + (uint64_t{1} << page_shift) - 1) >> page_shift);
}

// Whether small launches take unused memory for a class that holds `held_pages`: while few pages of the heap are held, or while the class
// holds few beside the free ones. All such classes together hold at most twice what is free, so they leave memory to the others.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool has_ample_memory(unsigned all_pages, unsigned free_pages, unsigned held_pages) {
  if (Tuning.ample_eighths == 0) return false;
  return all_pages - free_pages < all_pages / 8 * Tuning.ample_eighths || uint64_t{held_pages} * small_class_divisor < free_pages;
}

// Pages for the slots that the launch will ask of one shard, if every warp asks once as the caller's warp does.
[[nodiscard]] GPUHEAP_HD constexpr unsigned demanded_pages(refill_input const& in) {
  unsigned const slots = static_cast<unsigned>(uint64_t{in.lanes} * in.warps >> in.lg_shards) + 1;
  uint64_t const all = uint64_t{slots} * in.slot_bytes;
  return pages_of(all + all / 32, in.page_shift);
}
// At most this many of `pages`: the longest span.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr unsigned at_most_longest(refill_input const& in, unsigned pages) {
  unsigned const most = pages_of(uint64_t{in.slot_bytes} << Tuning.lg_span_slots, in.page_shift);
  if (most < pages) pages = most;
  unsigned const longest = in.max_segments << in.lg_pages;
  return longest != 0 && longest < pages ? longest : pages;
}

// Whether nearly all lanes of the warp ask for the class: in a large launch, of those lanes that ask at all.
[[nodiscard]] GPUHEAP_HD constexpr bool is_of_one_class(refill_input const& in) {
  return in.is_large_launch ? in.is_uniform : in.lanes * 4 >= simt::warp_lanes * 3;
}
// At most this many of `pages`: the longest span for a group of few lanes. Few lanes of one warp say little about the other warps: their
// class may be a rare one. So the bound rises with the number of lanes. A class that is asked often gets up to twice what it holds for a
// shard on average.
[[nodiscard]] GPUHEAP_HD constexpr unsigned at_most_of_few_lanes(refill_input const& in, unsigned pages) {
  if (is_of_one_class(in)) return pages;
  unsigned const of_lanes = lone_lane_segments * in.lanes * in.lanes << in.lg_pages, growing = in.held_pages * 2 >> in.lg_shards;
  unsigned const most = of_lanes < growing ? growing : of_lanes;
  return most < pages ? most : pages;
}

// Whether this is the launch's first refill of the class, and the class has no partial span.
[[nodiscard]] GPUHEAP_HD constexpr bool is_first_without_partial(refill_input const& in) {
  return !in.has_partial && !in.failures.in(in.launch);
}
// Whether a launch, in which few lanes of a warp ask for the class, seems to repeat an earlier one whose blocks are all freed: the launch's
// first refill of the class meets the end of a span that an earlier launch left, and the class has no partial span. This is false if the
// launch has refilled the class before, or if the shard had no span. Where nearly all lanes ask, a span is made for the whole launch or for
// several launches anyway.
[[nodiscard]] GPUHEAP_HD constexpr bool repeats_launch(refill_input const& in) {
  return !is_of_one_class(in) && in.ended_slots != 0 && is_first_without_partial(in);
}
// Whether the class holds at most what it would hold if each shard that the launch uses had a span as long as the one that is used up. So
// hardly any block of an earlier launch lies in another span.
[[nodiscard]] GPUHEAP_HD constexpr bool holds_only_such_spans(refill_input const& in) {
  return in.held_pages <= pages_of(uint64_t{in.ended_slots + 1} * in.slot_bytes, in.page_shift) << in.lg_shards;
}
// Pages of the spans that the shard has had, by which a launch of several classes judges how long the next one should be; 0 if they say
// nothing. In a small launch that is repeated, this is what a shard of the class holds on average. The warps of a large launch misjudge it,
// each in its own way, so that the span that is used up says more.
[[nodiscard]] GPUHEAP_HD constexpr unsigned pages_before(refill_input const& in) {
  if (in.is_large_launch) return is_of_one_class(in) ? 0 : pages_of(uint64_t{in.ended_slots} * in.slot_bytes, in.page_shift);
  return repeats_launch(in) && holds_only_such_spans(in) ? in.held_pages >> in.lg_shards : 0;
}

// Pages that a new span should have. plan_refill() rounds them to whole segments where the fast path claims the span.
//
// The length assumes that every warp of the launch asks once as the caller's warp does. So one or two spans of each shard serve a burst,
// and a lone thread takes a few pages. If the class holds many pages, a small launch takes at least a share of that number (held_divisor).
// So does a large launch whose warps ask by one lane each (alone_held_divisor): such a lane often asks many times.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr unsigned span_pages(refill_input const& in) {
  unsigned const slots = static_cast<unsigned>(uint64_t{in.lanes} * in.warps >> in.lg_shards) + 1;
  uint64_t const all = uint64_t{slots} * in.slot_bytes;
  unsigned pages = demanded_pages(in);
  bool const large = in.is_large_launch, one_class = is_of_one_class(in);
  unsigned const most_free = in.free_pages / (large && one_class ? Tuning.span_free_divisor : Tuning.shared_span_divisor());
  if (!large && most_free < pages && in.held_pages < pages) {
    // The launch needs more than one span may have, so this span gets the pages that the class does not hold yet. If it got more, the class
    // would hold more than a launch needs, and each launch would leave another span partly unused.
    pages -= in.held_pages;
  } else {
    // A refill makes its launch last longer. So a small launch takes enough for several launches like it, if that is little of the free
    // memory.
    unsigned const ahead = large || in.lg_shards != 0 ? pages : pages * launches_per_span;
    unsigned const little = one_class ? in.free_pages / Tuning.shared_span_divisor() : in.free_pages >> 10;
    unsigned const more = ahead < little ? ahead : little;
    if (pages < more) pages = more;
    if (pages < 4) {
      unsigned const eight_launches = pages_of(all * 8, in.page_shift);
      pages = eight_launches < 4 ? eight_launches : 4;
    }
    unsigned const of_shard = in.held_pages >> in.lg_shards;
    unsigned const share = !large ? of_shard / Tuning.held_divisor : in.is_alone ? of_shard / alone_held_divisor : 0;
    if (share > pages) pages = share;
    // The next span is no shorter than what pages_before() tells, and a launch that is repeated needs more than that. Without growth, every
    // launch like it would meet the end of a span. Groups of few lanes misjudge their launch by a factor of about four at most, so a span
    // does not grow beyond four times the demand.
    unsigned const before = pages_before(in), longer = repeats_launch(in) ? before + before / growth_divisor : before,
                   most = demanded_pages(in) * launches_per_span;
    unsigned const grown = longer < most ? longer : most;
    if (grown > pages) pages = grown;
  }
  // The bounds. A later one overrules an earlier one.
  if (most_free < pages) pages = most_free;
  pages = at_most_of_few_lanes(in, pages);
  // However little memory is free, a span holds all slots for which threads wait now. One refill then serves them, in place of one for each
  // page.
  unsigned const least = pages_of(uint64_t{in.asked == 0 ? 1 : in.asked} * in.slot_bytes, in.page_shift);
  if (pages < least) pages = least;
  return at_most_longest<Tuning>(in, pages);
}

// Makes the plan of a refill. It decides on the length of a span too: the fast path claims whole segments, and those of a large launch
// even for a few pages. So a rule that makes spans shorter or longer than span_pages() says today has to hold for `n` as well.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr refill_plan plan_refill(refill_input const& in) {
  unsigned const pages = span_pages<Tuning>(in);
  bool const first_refill = !in.failures.in(in.launch),
             ample = !in.is_large_launch && has_ample_memory<Tuning>(in.all_pages, in.free_pages, in.held_pages);
  bool const hopeful = first_refill || in.failures.count() < reuse_failures::enough || in.free_pages < in.all_pages / nearly_full_divisor;
  bool const reuses = Tuning.partial_samples != 0 && in.has_partial && !ample && hopeful;
  // The shards of a small launch meet the ends of their spans one after another, so no span is rounded down.
  unsigned const round_up = !in.is_large_launch && in.lg_shards != 0 ? (1u << in.lg_pages) - 1 : segment_round_up;
  unsigned n = pages < min_segment_pages ? 0 : (pages + round_up) >> in.lg_pages;
  // A span of a whole segment serves faster than a span of pages in a shared segment.
  unsigned const free_segments = in.free_pages >> in.lg_pages;
  if (n == 0 && (in.is_large_launch || (ample && free_segments > Tuning.shared_span_divisor() * 4))) n = 1;
  if (n > in.max_segments) n = in.max_segments;
  // While little memory is free, it is scattered, and idle spans of other classes may hold more. So a refill takes one of these over if its
  // span would be shorter than the launch needs: for want of free pages, or, on the fast path, of a long row. A launch that asks for
  // several classes takes none over, since it needs the idle spans of these classes itself.
  bool const may_take = in.others_idle && in.is_uniform && Tuning.take_over_divisor != 0 &&
                        simt::uint64_t{in.free_pages} * Tuning.take_over_divisor < in.all_pages;
  unsigned const demand = at_most_longest<Tuning>(in, at_most_of_few_lanes(in, demanded_pages(in)));
  bool const is_short = pages < demand;
  unsigned const takes_over = may_take && (is_short || n != 0) ? demand : 0;
  // The fast path needs a whole segment that is free.
  bool const fast = !reuses && free_segments != 0 && !(takes_over != 0 && is_short);
  return {.pages = pages,
          .segments = fast ? n : 0,
          .takes_over = takes_over,
          .reuses = reuses,
          .memory_is_low = in.free_pages < in.all_pages / low_memory_divisor,
          .finds_no_partial = is_first_without_partial(in),
          .wants_long_row = !in.is_large_launch && repeats_launch(in)};
}

// How well an idle span of `there` pages of another class serves a refill that takes over `pages` pages: 0 if it is too short, otherwise 1
// to 127. A span that is just long enough is the best.
[[nodiscard]] GPUHEAP_HD constexpr unsigned worth_of_idle(unsigned there, unsigned pages) {
  if (there < pages) return there < pages - there ? 0 : there * 63 / pages;
  unsigned const over = (there - pages) / ((pages + 7) / 8);
  return 127 - (over < 63 ? over : 63);
}

// ---- the place of a new span

// Where the fast path looks for a row of n segments: first in `leaf`, from `bit` on; if that is taken, `step` leaves further on, and so
// forth.
struct row_place {
  unsigned leaf, bit = 0, step = 1;
  bool only_there = false;  // the first look at a leaf accepts no other row in it
};
// x modulo `leaves`, without a division in the common case.
[[nodiscard]] GPUHEAP_HD constexpr unsigned wrap(unsigned x, unsigned leaves) { return x < leaves ? x : x % leaves; }
// The place for shard k of class c, of which the launch uses 2^lg_shards shards. `low_leaves`: a bit for each of the first 64 leaves that
// may have a free segment.
//
// Memory is taken from the lowest place on, so that the addresses of a launch stay close together. If a launch uses several shards, the
// rows of a class lie `side_by_side`: 64 / n in a leaf. Where the lanes of a large launch ask for several classes, the rows of these
// classes would meet, and claims that try the same bits contend. Then the rows lie `apart`: each at one of a few times as many places.
// The first `divided` segments of the heap belong to no row, since prepared spans have their pages.
[[nodiscard]] GPUHEAP_HD constexpr row_place place_row(unsigned n, unsigned c, unsigned k, unsigned num_shards, unsigned lg_shards,
                                                       unsigned leaves, uint64_t low_leaves, unsigned divided, bool apart,
                                                       bool side_by_side) {
  unsigned const hash = (c * 16 + k) * 0x9e3779b9u;
  row_place place{low_leaves == 0 ? (hash >> 16) % leaves : wrap(simt::lowest_bit(low_leaves), leaves)};
  if (!apart && !side_by_side) return place;
  unsigned const rows = 64 / n;
  unsigned row = apart ? hash >> (32 - lg_places_per_row - lg_shards) : k, before = 0;
  if (divided != 0 && !apart) {
    // The segments before the first row. If the launch's rows then do not fit into the leaf, the last of these rows begins the next leaf,
    // unless other rows fill that leaf: then rows begin where they always do, and the first one lies behind all others.
    unsigned const shards = 1u << lg_shards, here = rows < shards ? rows : shards;
    bool const fits = here * n + divided <= 64, is_full = (rows & (rows - 1)) == 0;
    if (place.leaf == 0 && (fits || !is_full)) before = divided;
    if (place.leaf == 0 && !fits && !is_full && row >= rows - 1) ++row;
    // A refill that finds its row taken, and took another one of a leaf that the launch's rows fill, would take another refill's row.
    place.only_there = here == rows;
  }
  unsigned const leaves_before = row / rows, step = wrap(num_shards / rows, leaves);
  if (low_leaves != 0) place.leaf = wrap(place.leaf + leaves_before, leaves);
  place.bit = (row - leaves_before * rows) * n + (leaves_before == 0 ? before : 0);
  if (!apart && step != 0) place.step = step;
  return place;
}

// The bit of a leaf from which on the refill of shard k of class c looks, once it has lost a row to another refill. In a small launch whose
// lanes ask for several classes, the refills of these classes all begin at the lowest row. Those that lose it look in the next leaf at the
// same time. Without different places there, they would lose again and again.
[[nodiscard]] GPUHEAP_HD constexpr unsigned bit_after_loss(unsigned c, unsigned k) { return ((c * 0x9e3779b9u >> 26) + k) % 64; }

// A row of free segments.
struct free_row {
  unsigned first, length;  // 0 if there is no row
};
// Whether only a whole row will do for a refill that has looked for one `looks` times in vain. A small launch accepts a shorter row: at
// once, or after the first time if it wants a long one. A launch that is repeated would take the same short row each time, although longer
// ones are free further on.
[[nodiscard]] GPUHEAP_HD constexpr bool needs_whole_row(bool is_large_launch, bool wants_long_row, unsigned looks) {
  return is_large_launch || (wants_long_row && looks == 0);
}
// Finds a row of n free segments in the leaf `free`, or of a quarter of n or more if it need not be `whole`: the first one from `bit` on,
// or else the lowest. With `only_there`, the row that begins at `bit`.
[[nodiscard]] GPUHEAP_HD constexpr free_row find_row(uint64_t free, unsigned n, unsigned bit, bool whole, bool only_there = false) {
  uint64_t starts = structures::consecutive(free, whole ? n : (n + 3) / 4);
  if (only_there) starts &= uint64_t{1} << bit;
  uint64_t const above = starts & ~simt::low_bits(bit);
  if (above != 0) starts = above;
  if (starts == 0) return {0, 0};
  unsigned const first = simt::lowest_bit(starts), there = structures::run_length(free, first);
  return {first, there < n ? there : n};
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
