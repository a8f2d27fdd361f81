// The decisions of the default allocator: how many shards a launch uses, how much memory a refill takes, from where, and whether it reuses
// a partial span. refill.hpp acts on these decisions.
//
// These are pure functions of plain numbers: they read no word of a heap and change none. A wrong number costs time or memory, and never
// correctness, as long as a plan keeps what refill_plan promises. tests/allocators/sharded_policy_test.cpp checks that, and the rules.
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
  // Of small launches, which come again and again:
  unsigned held_divisor = 2;   // a new span has at least 1/this of the pages that its class holds
  unsigned ample_eighths = 4;  // eighths of the heap's pages: while fewer are held, refills take unused memory and reuse no partial span
  // Switched off only to measure what each idea buys (benchmarks/ablation):
  bool aggregates = true;          // the lanes of a warp that ask for one class claim together
  bool uses_cursor = true;         // partial spans are sampled one after the other, not from random places
  bool remembers_refusals = true;  // a class that was refused is refused again until something is relocated
  bool resets = true;              // an active span of which nothing is live is reset at once (reset.hpp)

  // Small launches take a smaller share. So do large ones whose lanes ask for several classes, since these share the free pages.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shared_span_divisor() const { return span_free_divisor * 4; }
};
constexpr unsigned samples_per_lane = 6;      // partial spans that each lane of a warp samples in one refill, at most
constexpr unsigned low_memory_divisor = 4;    // memory is low while less than 1/this of the heap's pages are free
constexpr unsigned nearly_full_divisor = 16;  // while less than 1/this of them are free, every refill samples partial spans
constexpr unsigned low_reuse_factor = 8;      // where memory is low, a partial span needs 1/this of the free slots that it needs otherwise
constexpr unsigned eight_shard_bytes = 256;   // slots of so many bytes or more: few lanes of a warp use eight shards and not four
constexpr unsigned sixteen_shard_bytes = 2048;  // slots of so many bytes or more: few lanes of a warp use sixteen
constexpr unsigned lg_shards_of_large = 6;      // a launch keeps a shard busy for each warp in 2^(lg_large_launch - this)
constexpr unsigned lg_segments_per_shard = 3;   // log2 of the segments, rounded up, that a small launch needs for each shard that it uses
constexpr unsigned lg_min_shards = 2;           // log2 of the shards of a large launch that needs little memory
constexpr unsigned launches_per_span = 4;       // small launches that a new span lasts for, if they use one shard
constexpr unsigned looks_for_row = 8;           // times that a refill looks at four more leaves for its row, before half of a row will do
constexpr unsigned looks_for_half = 2;          // and after that, before the slow path is taken
constexpr unsigned min_segment_pages = 52;      // pages: a new span of fewer shares a segment with other spans
constexpr unsigned segment_round_up = 48;       // pages: a remainder of 64 - this or more becomes another segment
// A tuning as a type. Its name is part of the names of all kernels and functions, and those are part of every object file.
struct shipped {
  static constexpr tuning tuned{};
};
template <tuning Tuning>
struct tuned_as {
  static constexpr tuning tuned = Tuning;
};
static_assert(1u << tuning{}.lg_span_slots <= structures::shard_word::max_slots);

// ---- shards

// Whether nearly all of `lanes` lanes of a warp ask for one class, `group` of them. A lane alone may be one of many that ask for several.
[[nodiscard]] GPUHEAP_HD constexpr bool is_uniform(unsigned lanes, unsigned group) { return group * 4 >= lanes * 3 && lanes != 1; }

// Whether a launch of so many warps is a large one, in a heap of 2^lg_shards shards for each class.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool is_large_launch(unsigned warps, unsigned lg_shards) {
  return lg_shards >= 2 && warps >> Tuning.lg_large_launch != 0;
}
// log2 of the shards of class c that a launch of so many warps uses, of which `group` of the `lanes` lanes of this warp ask for c: 0 to 4.
//
// The warps of a shard wait while it is refilled, so more shards let less of a launch wait. Three limits hold. A launch has no more shards
// than its warps keep busy. A class for which few lanes ask has few shards, since a rare large group would refill shards that no other
// group uses. And each shard hands out several segments if every warp asks as this one does. Of a large launch, whose spans are whole
// segments, each shard hands out one segment, and up to four shards may hand out less.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr unsigned lg_shards_of_group(unsigned warps, layout const& at, unsigned c, unsigned lanes,
                                                               unsigned group) {
  constexpr unsigned lg_warps = Tuning.lg_large_launch > lg_shards_of_large ? Tuning.lg_large_launch - lg_shards_of_large : 0;
  unsigned const times = warps >> lg_warps, slot = size_classes::slot_bytes(c);
  // 1, then 4, 8 and 16: where there are several, most serve while one is refilled.
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

// ---- reuse of partial spans

// How often refills have sampled partial spans of one class in vain, since the last that found one: up to `enough` times. Then no refill of
// that launch samples any, nor of the next few launches: 0 of them at first, and twice as many and one more each time that another launch
// fails too, up to 15. Launches side by side thus share what each of them would find out.
//
//   bit  0       2          5
//        | count | lg pause | launch |
struct reuse_failures {
  static constexpr unsigned enough = 3, max_lg_pause = 4, launch_at = 5;
  static constexpr unsigned side_by_side = 16;  // a launch that began so many launches before the recorded one shares its count
  unsigned bits = 0;

  // A launch that finds no partial span at its first refill looks for none later: those would be its own.
  [[nodiscard]] GPUHEAP_HD constexpr reuse_failures no_partial_span(unsigned launch) const {
    return {launch << launch_at | lg_pause() << 2 | enough};
  }
  // Whether this is the record of so many launches that `launch` is one of them.
  [[nodiscard]] GPUHEAP_HD constexpr bool in(unsigned launch) const {
    constexpr unsigned launches = ~0u >> launch_at;
    return ((launch - (bits >> launch_at) + side_by_side) & launches) < side_by_side + (1u << lg_pause());
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned count() const { return bits & 3; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_pause() const { return bits >> 2 & 7; }
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
// How many claims each word of a reused span of so many slots gets: as many as it has free slots on average, so that most claims find one.
[[nodiscard]] GPUHEAP_HD constexpr unsigned claims_for_each_word(unsigned free, unsigned sampled, unsigned slots, unsigned slots_per_word) {
  unsigned const claims = free * (slots < slots_per_word ? slots : slots_per_word) / sampled;
  return claims == 0 ? 1 : claims;
}

// ---- refills

// The facts by which a refill decides. Counts of pages are hints: other threads change them meanwhile.
struct refill_input {
  unsigned slot_bytes;      // bytes of a slot of the class
  unsigned lanes;           // lanes of the warp that asked for the class
  bool is_uniform;          // these are nearly all lanes of the warp
  unsigned asked;           // slots for which threads wait now
  unsigned warps;           // warps of the launch
  unsigned lg_shards;       // log2 of the shards that the launch uses of the class, for groups like this one
  bool is_large_launch;     // is_large_launch() says so of the launch
  unsigned launch;          // number of the launch
  unsigned page_shift;      // log2 of the bytes of a page
  unsigned lg_pages;        // log2 of the pages of a segment
  unsigned max_segments;    // segments of the longest span of the class; 0: a segment is longer than that
  unsigned all_pages;       // pages of the heap
  unsigned free_pages;      // pages of no span and no large allocation
  unsigned held_pages;      // pages of the class's spans
  bool has_partial;         // the class may have a partial span
  reuse_failures failures;  // samples of the class's partial spans in vain
};
// The plan of a refill. The pages hold one slot or more. There are at most 64 segments and at most max_segments, and none if `reuses`.
struct refill_plan {
  unsigned pages;         // pages that a new span should have
  unsigned segments;      // segments that the fast path claims side by side; 0: the slow path is taken
  bool reuses;            // the slow path samples partial spans before it claims unused memory
  bool memory_is_low;     // partial spans with few free slots will do
  bool finds_no_partial;  // this is the launch's first refill of the class, and there is no partial span
};

// Pages for so many bytes.
[[nodiscard]] GPUHEAP_HD constexpr unsigned pages_of(uint64_t bytes, unsigned page_shift) {
  return static_cast<unsigned>((bytes + (uint64_t{1} << page_shift) - 1) >> page_shift);
}

// Whether so little of the heap is held that small launches take unused memory.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr bool has_ample_memory(unsigned all_pages, unsigned free_pages) {
  return Tuning.ample_eighths != 0 && all_pages - free_pages < all_pages / 8 * Tuning.ample_eighths;
}

// Pages that a new span should have.
//
// A launch is expected to ask once in every warp as the caller does, so that one or two spans of each shard serve a burst, and a lone
// thread takes a few pages. A small launch that holds much of a class gets a share of that.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr unsigned span_pages(refill_input const& in) {
  unsigned const slots = static_cast<unsigned>(uint64_t{in.lanes} * in.warps >> in.lg_shards) + 1;
  uint64_t const all = uint64_t{slots} * in.slot_bytes;
  unsigned pages = pages_of(all + all / 32, in.page_shift);
  bool const large = in.is_large_launch, one_class = large ? in.is_uniform : in.lanes * 4 >= simt::warp_lanes * 3;
  unsigned const most_free = in.free_pages / (large && one_class ? Tuning.span_free_divisor : Tuning.shared_span_divisor());
  if (!large && most_free < pages && in.held_pages < pages) {
    // The launch needs more than one span may have: this one gets what the class does not hold yet. With longer ones, the spans would take
    // turns in being the one that is partly unused.
    pages -= in.held_pages;
  } else {
    // A launch in which a refill happens lasts longer. So a small launch takes enough for several like it, if that is little.
    unsigned const ahead = large || in.lg_shards != 0 ? pages : pages * launches_per_span;
    unsigned const little = one_class ? in.free_pages / Tuning.shared_span_divisor() : in.free_pages >> 10;
    unsigned const more = ahead < little ? ahead : little;
    if (pages < more) pages = more;
    if (pages < 4) {
      unsigned const eight_launches = pages_of(all * 8, in.page_shift);
      pages = eight_launches < 4 ? eight_launches : 4;
    }
    unsigned const share = large ? 0 : in.held_pages / (Tuning.held_divisor << in.lg_shards);
    if (share > pages) pages = share;
  }
  if (most_free < pages) pages = most_free;
  // A span holds all slots for which threads wait now, however little is free: the last memory goes to them together, not a page to each.
  unsigned const least = pages_of(uint64_t{in.asked == 0 ? 1 : in.asked} * in.slot_bytes, in.page_shift);
  if (pages < least) pages = least;
  unsigned const most = pages_of(uint64_t{in.slot_bytes} << Tuning.lg_span_slots, in.page_shift);
  if (most < pages) pages = most;
  unsigned const longest = in.max_segments << in.lg_pages;
  return longest != 0 && longest < pages ? longest : pages;
}

// Makes the plan of a refill.
template <tuning Tuning>
[[nodiscard]] GPUHEAP_HD constexpr refill_plan plan_refill(refill_input const& in) {
  unsigned const pages = span_pages<Tuning>(in);
  bool const first_refill = !in.failures.in(in.launch),
             ample = !in.is_large_launch && has_ample_memory<Tuning>(in.all_pages, in.free_pages);
  bool const hopeful = first_refill || in.failures.count() < reuse_failures::enough || in.free_pages < in.all_pages / nearly_full_divisor;
  bool const reuses = Tuning.partial_samples != 0 && in.has_partial && !ample && hopeful;
  // The shards of a small launch meet the ends of their spans one after another, so no span is rounded down.
  unsigned const round_up = !in.is_large_launch && in.lg_shards != 0 ? (1u << in.lg_pages) - 1 : segment_round_up;
  unsigned n = pages < min_segment_pages ? 0 : (pages + round_up) >> in.lg_pages;
  // A segment of its own serves faster than pages of a shared one.
  unsigned const free_segments = in.free_pages >> in.lg_pages;
  if (n == 0 && (in.is_large_launch || (ample && free_segments > Tuning.shared_span_divisor() * 4))) n = 1;
  if (n > in.max_segments) n = in.max_segments;
  // Where no whole segment can be free, the fast path would look for one in vain.
  bool const fast = !reuses && free_segments != 0;
  return {pages, fast ? n : 0, reuses, in.free_pages < in.all_pages / low_memory_divisor, first_refill && !in.has_partial};
}

// ---- the place of a new span

// The leaf of the tree of whole segments at which large launches look first, for shard k of class c. The shards of a class begin in
// different leaves, since claims meet in leaves. Classes of small slots keep to a quarter of the heap, so that others find whole leaves.
[[nodiscard]] GPUHEAP_HD constexpr unsigned first_leaf(unsigned c, unsigned k, unsigned leaves) {
  unsigned const i = ((c * 0x9e3779b9u >> 16) + (leaves < 16 ? k : k * (leaves >> 4))) % leaves;
  return size_classes::slot_bytes(c) < 1024 ? i / 4 : leaves / 4 + i - (i + 3) / 4;
}

// Where the fast path looks for a row of n segments: in this leaf, from this bit on; and where that is taken, so many leaves further on.
struct row_place {
  unsigned leaf, bit, step;
};
// For shard k of class c. `low_leaves`: which of the first 64 leaves may have a bit.
//
// Where the lanes of a large launch ask for several classes, the rows lie `apart`: each class and shard begins in another leaf, since
// claims meet in leaves. Otherwise memory is taken from the lowest place on, and the rows of several shards lie side by side: 64 / n in a
// leaf.
[[nodiscard]] GPUHEAP_HD constexpr row_place place_row(unsigned n, unsigned c, unsigned k, unsigned num_shards, unsigned leaves,
                                                       uint64_t low_leaves, bool apart, bool several_shards) {
  bool const side_by_side = several_shards && !apart;
  unsigned const nth = side_by_side ? k : 0, leaves_before = nth / (64 / n), all_rows = side_by_side ? num_shards / (64 / n) : 0;
  unsigned const step = all_rows % leaves;
  return {apart || low_leaves == 0 ? first_leaf(c, k, leaves) : (simt::lowest_bit(low_leaves) + leaves_before) % leaves,
          (nth - leaves_before * (64 / n)) * n, step == 0 ? 1 : step};
}

// A row of n free segments in a leaf, from bit `bit` on if there is one, else from the lowest place. A row of a quarter of n will do for a
// small launch.
struct free_row {
  unsigned first, length;  // length 0: there is none
};
[[nodiscard]] GPUHEAP_HD constexpr free_row find_row(uint64_t free, unsigned n, unsigned bit, bool is_large_launch) {
  uint64_t starts = structures::consecutive(free, is_large_launch ? n : (n + 3) / 4);
  uint64_t const above = starts & ~simt::low_bits(bit);
  if (above != 0) starts = above;
  if (starts == 0) return {0, 0};
  unsigned const first = simt::lowest_bit(starts), there = structures::run_length(free, first);
  return {first, there < n ? there : n};
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
