// The packed words by which a run of segments is known: its header, the shard word through which its slots are drawn, and each segment's
// tag.
//
// A run is an aligned block of 2^order segments that serves one size class. Every change of what a run is (owner, class, count, generation)
// is one atomic on its header; every draw of slots is one atomic on a shard word.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The header of the run that begins at a segment.
//
//   bit  0       12            32      33      34      35     41     44          64
//        | full  |  accounted  | bound | slots | large | class | order | generation |
//
//   full        groups of slots that are entirely free, biased so that additions still under way cannot borrow from the neighbour
//   accounted   slots of the present sweep that have been dealt with
//   bound       a shard (or one thread) is handing out slots of the run: no release, no second adoption
//   slots       the run is in use for slots of `class`. Neither this nor `large`: the segments are free or being claimed
//   large       the segment begins one allocation; bits 0..31 are its length in segments
//   generation  counts the uses of the segment, so that a compare-exchange cannot mistake a later use for an earlier one
struct run_header {
  using word = simt::uint64_t;
  static constexpr word full_one = 1;
  static constexpr unsigned full_bias = 1024;
  static constexpr word accounted_one = word{1} << 12;
  static constexpr word accounted_mask = (word{1} << 20) - 1;
  static constexpr word bound = word{1} << 32;
  static constexpr word slots = word{1} << 33;
  static constexpr word large = word{1} << 34;
  static constexpr unsigned class_at = 35, order_at = 41, generation_at = 44;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr run_header fresh_slots(unsigned size_class, unsigned order, word generation) {
    return {full_bias | bound | slots | word{size_class} << class_at | word{order} << order_at | generation << generation_at};
  }
  [[nodiscard]] GPUHEAP_HD static constexpr run_header fresh_large(unsigned num_segments, word generation) {
    return {num_segments | large | generation << generation_at};
  }
  [[nodiscard]] GPUHEAP_HD static constexpr run_header unused(word generation) { return {generation << generation_at}; }

  [[nodiscard]] GPUHEAP_HD constexpr word generation() const { return bits >> generation_at; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> class_at) & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned order() const { return static_cast<unsigned>(bits >> order_at) & 7; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned full_groups() const { return (static_cast<unsigned>(bits) & 0xfff) - full_bias; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned accounted() const {
    return static_cast<unsigned>(bits >> 12) & static_cast<unsigned>(accounted_mask);
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned large_segments() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_large() const { return (bits & large) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool serves(unsigned c) const { return (bits & slots) != 0 && size_class() == c; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_bound() const { return (bits & bound) != 0; }
};
static_assert(run_header::fresh_slots(59, 6, 7).size_class() == 59 && run_header::fresh_slots(59, 6, 7).order() == 6 &&
              run_header::fresh_slots(59, 6, 7).generation() == 7 && run_header::fresh_slots(59, 6, 7).full_groups() == 0 &&
              run_header::fresh_slots(3, 0, 0).serves(3) && !run_header::fresh_slots(3, 0, 0).serves(4));

// What a shard is handing out: ONE fetch_add of a group's size returns the run and the first of the group's slots.
//
//   bit  0            24             42          60      61    64
//        | next slot  | first segment | num_slots | sweep | order |
//
//   num_slots 0          the shard has no run. next slot 0: nobody is fetching one, and whoever draws next has that duty. Otherwise
//   somebody is next < num_slots     room: the draw that reaches num_slots has the duty to replace the run. It is unique, because the
//   additions are ordered next >= num_slots    being replaced sweep                the run's slots were handed out before: a draw is a
//   place to look for freed ones
// Draws past the end cannot overflow the field: a warp draws only after it saw room, so they are fewer than the threads that the device can
// hold.
struct shard_word {
  using word = simt::uint64_t;
  static constexpr unsigned segment_at = 24, slots_at = 42, order_at = 61;
  static constexpr word sweep = word{1} << 60;
  static constexpr unsigned max_segments = 1u << 18;
  static constexpr unsigned max_slots = (1u << 18) - 1;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr shard_word of_run(unsigned segment, unsigned num_slots, unsigned order, bool is_sweep) {
    return {word{segment} << segment_at | word{num_slots} << slots_at | word{order} << order_at | (is_sweep ? sweep : 0)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned next() const { return static_cast<unsigned>(bits) & 0xffffff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned segment() const { return static_cast<unsigned>(bits >> segment_at) & (max_segments - 1); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned num_slots() const { return static_cast<unsigned>(bits >> slots_at) & max_slots; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned order() const { return static_cast<unsigned>(bits >> order_at); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_sweep() const { return (bits & sweep) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_run() const { return num_slots() != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_room() const { return next() < num_slots(); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_idle() const { return num_slots() == 0 && next() == 0; }
  // Whether the draw of n slots that returned this word must fetch the next run.
  [[nodiscard]] GPUHEAP_HD constexpr bool duty_of(unsigned n) const { return is_idle() || (has_room() && next() + n >= num_slots()); }
};
static_assert(shard_word::of_run(5, 131072, 6, true).segment() == 5 && shard_word::of_run(5, 131072, 6, true).num_slots() == 131072 &&
              shard_word::of_run(5, 131072, 6, true).order() == 6 && shard_word::of_run(5, 131072, 6, true).is_sweep() &&
              !shard_word::of_run(5, 10, 0, false).is_sweep() && shard_word::of_run(5, 10, 0, false).duty_of(10) &&
              !shard_word::of_run(5, 10, 0, false).duty_of(9) && shard_word{0}.duty_of(1));

// What a segment is, for whoever has only an address: written when the segment is bound, wiped before it is given back.
//
//   0                        not in use
//   slotted                  1 : 1 | shard : 4 | fresh : 1 | order : 3 | class : 6
//   large head, large body   first and further segments of one allocation
struct segment_tag {
  using word = simt::uint16_t;
  static constexpr word slotted = 0x8000;
  static constexpr word large_head = 0x4000;
  static constexpr word large_body = 0x4001;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr segment_tag of_slots(unsigned size_class, unsigned order, unsigned shard, bool fresh) {
    return {static_cast<word>(slotted | shard << 10 | (fresh ? 1u << 9 : 0u) | order << 6 | size_class)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_slotted() const { return (bits & slotted) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits & 63u; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned order() const { return bits >> 6 & 7u; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return bits >> 10 & 15u; }
  // The run may still have slots that were never handed out: its shard word tells. May stay set after the last one was.
  [[nodiscard]] GPUHEAP_HD constexpr bool maybe_fresh() const { return (bits >> 9 & 1u) != 0; }
};
static_assert(segment_tag::of_slots(59, 6, 15, true).size_class() == 59 && segment_tag::of_slots(59, 6, 15, true).order() == 6 &&
              segment_tag::of_slots(59, 6, 15, true).shard() == 15 && segment_tag::of_slots(59, 6, 15, true).maybe_fresh() &&
              segment_tag::of_slots(0, 0, 0, false).is_slotted() &&
              segment_tag::of_slots(59, 6, 15, false).bits != segment_tag::large_body);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
