// The packed words by which a run is known: its header, the shard word through which its slots are drawn, and the tags of its memory.
//
// A run is up to 64 contiguous segments, or up to 64 contiguous pages of one segment, that serve one size class. Every change of what a
// run is (owner, class, count, length, generation) is one atomic on its header; every draw of slots is one atomic on a shard word.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/size_classes.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The header of the run that begins at a page.
//
//   bit  0      11       12            32      33      34      35           36      42           48           64
//        | full | missed |  accounted  | bound | slots | large | segments | class | length - 1 | generation |
//
//   full        groups of slots that are entirely free, biased so that additions still under way cannot borrow from the neighbour
//   missed      somebody took the run off its list while it was bound: whoever unbinds it lists it
//   accounted   slots of the present sweep that have been dealt with
//   bound       a shard (or one thread) is handing out slots of the run: no release, no second adoption
//   slots       the run is in use for slots of `class`. Neither this nor `large`: the memory is free or being claimed
//   large       the page begins one large allocation; bits 0..31 are its length in pages. `bound`: one thread resizes it; `segments`: it
//               was freed meanwhile
//   segments    `length` counts segments; otherwise pages
//   generation  counts the uses of the page, so that a compare-exchange cannot mistake a later use for an earlier one
struct run_header {
  using word = simt::uint64_t;
  static constexpr word full_one = 1;
  static constexpr unsigned full_bias = 1024;
  static constexpr word missed = word{1} << 11;
  static constexpr word accounted_one = word{1} << 12;
  static constexpr word accounted_mask = (word{1} << 20) - 1;
  static constexpr word bound = word{1} << 32;
  static constexpr word slots = word{1} << 33;
  static constexpr word large = word{1} << 34;
  static constexpr word segments = word{1} << 35;
  static constexpr word freed = segments;  // of a large allocation
  static constexpr unsigned class_at = 36, length_at = 42, generation_at = 48;
  static constexpr word length_one = word{1} << length_at;
  static constexpr unsigned max_length = 64;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr run_header fresh_slots(unsigned size_class, unsigned length, bool of_segments,
                                                                   word generation) {
    return {full_bias | bound | slots | (of_segments ? segments : 0) | word{size_class} << class_at | word{length - 1} << length_at |
            generation << generation_at};
  }
  // What to add to the header of unused memory, which has its last use's generation and nothing else.
  [[nodiscard]] GPUHEAP_HD static constexpr word to_fresh_slots(unsigned size_class, unsigned length, bool of_segments) {
    return fresh_slots(size_class, length, of_segments, 1).bits;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr run_header fresh_large(unsigned num_pages, word generation) {
    return {num_pages | large | generation << generation_at};
  }
  [[nodiscard]] GPUHEAP_HD static constexpr run_header unused(word generation) { return {generation << generation_at}; }

  [[nodiscard]] GPUHEAP_HD constexpr word generation() const { return bits >> generation_at; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> class_at) & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned length() const { return (static_cast<unsigned>(bits >> length_at) & 63) + 1; }
  [[nodiscard]] GPUHEAP_HD constexpr bool of_segments() const { return (bits & segments) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned full_groups() const { return (static_cast<unsigned>(bits) & 0x7ff) - full_bias; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned accounted() const {
    return static_cast<unsigned>(bits >> 12) & static_cast<unsigned>(accounted_mask);
  }
  // The same run, bound again for a sweep.
  [[nodiscard]] GPUHEAP_HD constexpr run_header bound_again() const { return {(bits & ~missed) | bound}; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned large_pages() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_large() const { return (bits & (large | freed)) == large; }
  [[nodiscard]] GPUHEAP_HD constexpr bool serves(unsigned c) const { return (bits & slots) != 0 && size_class() == c; }
  [[nodiscard]] GPUHEAP_HD constexpr bool was_missed() const { return (bits & missed) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_bound() const { return (bits & bound) != 0; }
};
static_assert(run_header::fresh_slots(59, 64, true, 7).size_class() == 59 && run_header::fresh_slots(59, 64, true, 7).length() == 64 &&
              run_header::fresh_slots(59, 64, true, 7).generation() == 7 && run_header::fresh_slots(59, 64, true, 7).full_groups() == 0 &&
              run_header::fresh_slots(59, 64, true, 7).of_segments() && !run_header::fresh_slots(59, 1, false, 7).of_segments() &&
              run_header::fresh_slots(3, 1, false, 0).serves(3) && !run_header::fresh_slots(3, 1, false, 0).serves(4));

// What a shard is handing out: ONE fetch_add of a group's size returns the run and the first of the group's slots.
//
//   bit  0            21           43          63
//        | next slot  | first page | num_slots | sweep |
//
//   num_slots 0            the shard has no run. next slot 0: nobody is fetching one, and whoever draws next has that duty. Otherwise
//                          somebody is; with page 1, its own run is about to come back, all of it
//   next < num_draws()     room: the draw that reaches num_draws() has the duty to replace the run. It is unique, because the additions
//                          are ordered
//   next >= num_draws()    being replaced; the excess is what others want at this moment
//   sweep                  the run's slots were handed out before, and num_slots is {words : 14 | draws per word : 6}: draw n looks for a
//                          freed slot in word n / (draws per word). Without it, slots next..num_slots-1 are nobody's, and num_slots may
//                          be less than the run has
// Draws past the end cannot overflow the field: a group that finds `is_far()` waits for the run to be replaced and draws nowhere meanwhile,
// so there are fewer of them than `far` and the threads that the device can hold, which are fewer than 2^20.
struct shard_word {
  using word = simt::uint64_t;
  static constexpr unsigned page_at = 21, slots_at = 43;
  static constexpr word sweep = word{1} << 63;
  static constexpr unsigned max_pages = 1u << 22;
  static constexpr unsigned max_slots = 1u << 19;
  static constexpr unsigned far = 1u << 20;
  static constexpr word beginning_anew = word{1} << page_at | 1;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr shard_word of_run(unsigned page, unsigned num_slots) {
    return {word{page} << page_at | word{num_slots} << slots_at};
  }
  // words < 2^14, 1 <= draws_per_word <= 63.
  [[nodiscard]] GPUHEAP_HD static constexpr shard_word of_sweep(unsigned page, unsigned words, unsigned draws_per_word) {
    return {of_run(page, words << 6 | draws_per_word).bits | sweep};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned next() const { return static_cast<unsigned>(bits) & 0x1fffff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned page() const { return static_cast<unsigned>(bits >> page_at) & (max_pages - 1); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned num_slots() const { return static_cast<unsigned>(bits >> slots_at) & 0xfffff; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_sweep() const { return (bits & sweep) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned sweep_words() const { return num_slots() >> 6; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned draws_per_word() const { return num_slots() & 63; }
  // How many slots can be drawn.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned num_draws() const { return is_sweep() ? sweep_words() * draws_per_word() : num_slots(); }
  // Whether this slot of the run at `p` is known never to have been handed out, or not since it was taken back.
  [[nodiscard]] GPUHEAP_HD constexpr bool keeps_back(unsigned p, unsigned slot) const {
    return !is_sweep() && page() == p && slot >= next() && slot < num_slots();
  }
  // Whether this slot of the run at `p` may never have been handed out, or comes `before` or less ahead of the first one that was not. True
  // of some others too: every free asks this, in few instructions.
  [[nodiscard]] GPUHEAP_HD constexpr bool may_be_near(unsigned p, unsigned slot, unsigned before) const {
    return page() == p && static_cast<int>(slot + before - next()) >= 0;
  }
  // Whether the run at `p` is this one, fresh, and half of it or more was handed out, but not all.
  [[nodiscard]] GPUHEAP_HD constexpr bool mostly_drawn(unsigned p) const {
    return !is_sweep() && page() == p && has_room() && next() * 2 >= num_slots();
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_far() const { return next() >= far; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_run() const { return num_slots() != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_room() const { return next() < num_draws(); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_idle() const { return num_slots() == 0 && next() == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool begins_anew() const { return num_slots() == 0 && page() == 1; }
  // Whether the shard has a run, perhaps past its end, or its run is about to come back.
  [[nodiscard]] GPUHEAP_HD constexpr bool holds_a_run() const { return has_run() || begins_anew(); }
  // Whether the draw of n slots that returned this word got them all from a run that has more.
  [[nodiscard]] GPUHEAP_HD constexpr bool serves(unsigned n) const { return !is_sweep() && next() + n < num_slots(); }
  // Whether the draw of n slots that returned this word must fetch the next run.
  [[nodiscard]] GPUHEAP_HD constexpr bool duty_of(unsigned n) const { return is_idle() || (has_room() && next() + n >= num_draws()); }
  // What has been asked for and is not there.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned excess() const { return has_room() ? 0 : next() - num_draws(); }
};
static_assert(shard_word::of_run(5, 131072).page() == 5 && shard_word::of_run(5, 131072).num_draws() == 131072 &&
              !shard_word::of_run(5, 10).is_sweep() && shard_word::of_sweep(5, 4162, 63).is_sweep() &&
              shard_word::of_sweep(5, 8323, 63).num_draws() == 8323 * 63 && shard_word::of_sweep(5, 4162, 7).page() == 5 &&
              shard_word::of_run(shard_word::max_pages - 1, shard_word::max_slots).page() == shard_word::max_pages - 1 &&
              shard_word::of_run(5, 10).duty_of(10) && !shard_word::of_run(5, 10).duty_of(9) && shard_word{0}.duty_of(1));
static_assert(shard_word{shard_word::beginning_anew + 40}.begins_anew() && !shard_word{shard_word::beginning_anew}.is_idle() &&
              !shard_word{shard_word::beginning_anew}.duty_of(1) && !shard_word{1}.begins_anew() &&
              !shard_word::of_run(1, 9).begins_anew());
static_assert(shard_word{shard_word::of_run(5, 8000).bits + 5000}.may_be_near(5, 969, 4031) &&
              !shard_word{shard_word::of_run(5, 8000).bits + 5000}.may_be_near(5, 968, 4031) &&
              shard_word{shard_word::of_run(5, 8000).bits + 5000}.may_be_near(5, 7999, 0) &&
              !shard_word{shard_word::of_run(5, 8000).bits + 5000}.may_be_near(5, 4999, 0) &&
              !shard_word{shard_word::of_run(5, 8000).bits + 5000}.may_be_near(6, 5000, 4031));

// What a segment or a page is, for whoever has only an address: written when the memory is bound, wiped before it is given back. A run of
// segments tags its segments, a run of pages its pages.
//
//   0            not in use
//   broken_up    the segment's pages have tags of their own
//   slotted      1 : 1 | 0 | odd / 2 : 2 | shift : 5 | length - 1 : 6 | distance : 6 | shard : 4 | fresh : 1 | class : 6
//   large        the segment or page begins one large allocation
struct run_tag {
  using word = simt::uint32_t;
  static constexpr word slotted = 0x80000000;
  static constexpr word large_head = 0x40000000;
  static constexpr word broken_up = 1;

  word bits = 0;

  // The first unit of a run; the i-th has i * one_further more.
  [[nodiscard]] GPUHEAP_HD static constexpr run_tag of_slots(unsigned size_class, unsigned length, unsigned shard, bool fresh) {
    return {slotted | size_classes::odd_factor(size_class) / 2 << 28 | size_classes::shift(size_class) << 23 | (length - 1) << 17 |
            shard << 7 | (fresh ? 1u << 6 : 0u) | size_class};
  }
  static constexpr word one_further = 1u << 11;

  [[nodiscard]] GPUHEAP_HD constexpr bool is_slotted() const { return (bits & slotted) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits & 63; }
  // The run may still have slots that were never handed out: its shard word tells. Stays set when there are none any more.
  [[nodiscard]] GPUHEAP_HD constexpr bool maybe_fresh() const { return (bits >> 6 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return bits >> 7 & 15; }
  // Units from the run's first to this one, and units that the run has.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned distance() const { return bits >> 11 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned length() const { return (bits >> 17 & 63) + 1; }
  // Of a slot's size, which follows from the class, but every free asks: see size_classes.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shift() const { return bits >> 23 & 31; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned odd_factor() const { return (bits >> 27 & 6) | 1; }
};
static_assert(run_tag::of_slots(59, 64, 15, true).size_class() == 59 && run_tag::of_slots(59, 64, 15, true).length() == 64 &&
              run_tag::of_slots(59, 64, 15, true).shard() == 15 && run_tag::of_slots(59, 64, 15, true).maybe_fresh() &&
              run_tag{run_tag::of_slots(59, 64, 15, false).bits + 63 * run_tag::one_further}.distance() == 63 &&
              run_tag{run_tag::of_slots(59, 64, 15, false).bits + 63 * run_tag::one_further}.length() == 64 &&
              run_tag::of_slots(0, 1, 0, false).is_slotted() && run_tag::of_slots(59, 64, 15, true).bits != run_tag::large_head);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
