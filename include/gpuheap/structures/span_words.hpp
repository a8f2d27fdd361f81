// The packed words that describe a span: its header, the shard word from which threads claim its slots, and the tags of its memory.
//
// A span is up to 64 contiguous segments, or up to 64 contiguous pages of one segment, that serve one size class. Each change of a span's
// state, class, counts, length or generation is one atomic on its header. Each claim of slots is one atomic on a shard word.
// docs/allocator.md has a table of the transitions of each word.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/size_classes.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The header of the span that begins at a page.
//
//   bit  0      11       12            32       33      34      35           36      42           48           64
//        | full | relist |  accounted  | active | slots | large | segments | class | length - 1 | generation |
//
//   full        the number of groups (slot_map.hpp) of which all slots are free, plus full_bias: so a subtraction that arrives before its
//               addition cannot borrow from the neighbouring field
//   relist      a thread took the span from the partial list while the span was active. The thread that deactivates the span then lists it
//               again
//   accounted   how many claims of the present reuse are finished
//   active      a shard, or one thread, hands out slots of the span: no other thread acquires the span or releases its memory
//   slots       the span is in use for slots of `class`. Without this and `large` the memory is unused, or being claimed
//   large       the page begins one large allocation. Bits 0..31 are its length in pages; `active` says that a thread resizes it;
//               `segments` says that it was freed during a resize
//   segments    the length is in segments; without this it is in pages
//   generation  the number of uses of the page, so that no compare-exchange takes a later use for an earlier one
struct span_header {
  using word = simt::uint64_t;
  static constexpr word full_one = 1;
  static constexpr unsigned full_bias = 1024;
  static constexpr word full_mask = 0x7ff;
  static constexpr word relist = word{1} << 11;
  static constexpr word accounted_one = word{1} << 12;
  static constexpr word accounted_mask = (word{1} << 20) - 1;
  static constexpr word active = word{1} << 32;
  static constexpr word slots = word{1} << 33;
  static constexpr word large = word{1} << 34;
  static constexpr word segments = word{1} << 35;
  static constexpr word resizing = active, freed = segments;  // in the header of a large allocation
  static constexpr unsigned class_at = 36, length_at = 42, generation_at = 48;
  static constexpr word length_one = word{1} << length_at;
  static constexpr unsigned max_length = 64;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr span_header new_span(unsigned size_class, unsigned length, bool of_segments, word generation) {
    return {full_bias | active | slots | (of_segments ? segments : 0) | word{size_class} << class_at | word{length - 1} << length_at |
            generation << generation_at};
  }
  // The number whose addition makes the header of unused memory that of a new span. Such a header has the generation of the last use, and
  // otherwise zeros.
  [[nodiscard]] GPUHEAP_HD static constexpr word to_new_span(unsigned size_class, unsigned length, bool of_segments) {
    return new_span(size_class, length, of_segments, 1).bits;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr span_header large_allocation(unsigned num_pages, word generation) {
    return {num_pages | large | generation << generation_at};
  }
  [[nodiscard]] GPUHEAP_HD static constexpr span_header unused(word generation) { return {generation << generation_at}; }

  [[nodiscard]] GPUHEAP_HD constexpr word generation() const { return bits >> generation_at; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits >> class_at) & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned length() const { return (static_cast<unsigned>(bits >> length_at) & 63) + 1; }
  [[nodiscard]] GPUHEAP_HD constexpr bool of_segments() const { return (bits & segments) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned full_groups() const { return static_cast<unsigned>(bits & full_mask) - full_bias; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned accounted() const {
    return static_cast<unsigned>(bits >> 12) & static_cast<unsigned>(accounted_mask);
  }
  // 0 if the span is active and has n full groups.
  [[nodiscard]] GPUHEAP_HD constexpr word unlike_active(unsigned n) const {
    return (bits ^ (active | (full_bias + n))) & (active | full_mask);
  }
  // This header, active, without `relist`.
  [[nodiscard]] GPUHEAP_HD constexpr span_header active_again() const { return {(bits & ~relist) | active}; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned large_pages() const { return static_cast<unsigned>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_large() const { return (bits & (large | freed)) == large; }
  [[nodiscard]] GPUHEAP_HD constexpr bool serves(unsigned c) const { return (bits & slots) != 0 && size_class() == c; }
  [[nodiscard]] GPUHEAP_HD constexpr bool must_relist() const { return (bits & relist) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_active() const { return (bits & active) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_resizing() const { return (bits & resizing) != 0; }
};
static_assert(span_header::new_span(59, 64, true, 7).size_class() == 59 && span_header::new_span(59, 64, true, 7).length() == 64 &&
              span_header::new_span(59, 64, true, 7).generation() == 7 && span_header::new_span(59, 64, true, 7).full_groups() == 0 &&
              span_header::new_span(59, 64, true, 7).of_segments() && !span_header::new_span(59, 1, false, 7).of_segments() &&
              span_header::new_span(3, 1, false, 0).serves(3) && !span_header::new_span(3, 1, false, 0).serves(4));

// A shard's span: one fetch_add of a group's size returns the span and the first of the group's slots.
//
//   bit  0      21           43          63
//        | next | first page | num_slots | reused |
//
//   next                  the next slot to claim; of a reused span, the number of the next claim
//   num_slots 0           the shard has no span. If next is 0, the shard is idle: the next claim has the refill duty. Otherwise a thread
//                         refills the shard, or, if the page is 1, resets its span and puts it back
//   next < num_claims()   the shard has room. The claim that reaches num_claims() has the refill duty. Exactly one claim does, since the
//                         additions to a word are ordered
//   next >= num_claims()  a thread refills the shard. The excess over num_claims() is the number of slots that threads have claimed beyond
//                         the end
//   reused                the span's slots were handed out before. num_slots is {words : 14, claims per word : 6}, and claim n looks for a
//                         free slot in word n / (claims per word). Without this flag, slots next..num_slots-1 are unclaimed, and num_slots
//                         is the number of all slots of the span
// Claims past the end cannot overflow `next`. A group that finds is_overclaimed() waits and claims from no shard. So `next` stays below
// overclaim_limit plus the threads that a device can hold, which are fewer than 2^20.
struct shard_word {
  using word = simt::uint64_t;
  static constexpr unsigned page_at = 21, slots_at = 43;
  static constexpr word reused = word{1} << 63;
  static constexpr unsigned max_pages = 1u << 22;
  static constexpr unsigned max_slots = 1u << 19;
  static constexpr unsigned overclaim_limit = 1u << 20;
  static constexpr word being_reset = word{1} << page_at | 1;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr shard_word of_span(unsigned page, unsigned num_slots) {
    return {word{page} << page_at | word{num_slots} << slots_at};
  }
  // words < 2^14, 1 <= claims_per_word <= 63.
  [[nodiscard]] GPUHEAP_HD static constexpr shard_word of_reused(unsigned page, unsigned words, unsigned claims_per_word) {
    return {of_span(page, words << 6 | claims_per_word).bits | reused};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned next() const { return static_cast<unsigned>(bits) & 0x1fffff; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned page() const { return static_cast<unsigned>(bits >> page_at) & (max_pages - 1); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned num_slots() const { return static_cast<unsigned>(bits >> slots_at) & 0xfffff; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_reused() const { return (bits & reused) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned reused_words() const { return num_slots() >> 6; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned claims_per_word() const { return num_slots() & 63; }
  // The value of next at which the span is used up: its slots, or of a reused span its number of claims.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned num_claims() const { return is_reused() ? reused_words() * claims_per_word() : num_slots(); }
  // Whether this slot of the span at page p is unclaimed.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_unclaimed(unsigned p, unsigned slot) const {
    return !is_reused() && page() == p && slot >= next() && slot < num_slots();
  }
  // Whether slot `slot` of the span at page p may be unclaimed, or lies at most `before` slots below the first unclaimed one. True for some
  // other slots too: every free calls this, so the test has few instructions.
  [[nodiscard]] GPUHEAP_HD constexpr bool may_be_near_next(unsigned p, unsigned slot, unsigned before) const {
    // One subtraction compares both fields: `next` has bits 0..20, and slot + before stays below 2^20. So the difference in bits 0..42 is
    // below 2^20 if the pages are equal and next() <= slot + before.
    constexpr word above = ((word{1} << slots_at) - 1) & ~((word{1} << 20) - 1);
    return (((word{p} << page_at | (slot + before)) - bits) & above) == 0;
  }
  // Whether this is the span at page p, not reused, and partly claimed: at least half of its slots, or at least an eighth if the span is a
  // successor (span_tag::is_successor), but not all of them.
  [[nodiscard]] GPUHEAP_HD constexpr bool mostly_claimed(unsigned p, bool is_successor) const {
    return !is_reused() && page() == p && has_room() && next() << (is_successor ? 3 : 1) >= num_slots();
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_overclaimed() const { return next() >= overclaim_limit; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_span() const { return num_slots() != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool has_room() const { return next() < num_claims(); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_idle() const { return num_slots() == 0 && next() == 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_being_reset() const { return num_slots() == 0 && page() == 1; }
  // Whether the shard has a span, even one that is used up, or its span is being reset.
  [[nodiscard]] GPUHEAP_HD constexpr bool holds_a_span() const { return has_span() || is_being_reset(); }
  // Whether a claim of n slots that returned this word got all of them from a span that is not reused and has slots left.
  [[nodiscard]] GPUHEAP_HD constexpr bool serves(unsigned n) const { return !is_reused() && next() + n < num_slots(); }
  // Whether a claim of n slots that returned this word has the refill duty.
  [[nodiscard]] GPUHEAP_HD constexpr bool duty_of(unsigned n) const { return is_idle() || (has_room() && next() + n >= num_claims()); }
};
static_assert(shard_word::of_span(5, 131072).page() == 5 && shard_word::of_span(5, 131072).num_claims() == 131072 &&
              !shard_word::of_span(5, 10).is_reused() && shard_word::of_reused(5, 4162, 63).is_reused() &&
              shard_word::of_reused(5, 8323, 63).num_claims() == 8323 * 63 && shard_word::of_reused(5, 4162, 7).page() == 5 &&
              shard_word::of_span(shard_word::max_pages - 1, shard_word::max_slots).page() == shard_word::max_pages - 1 &&
              shard_word::of_span(5, 10).duty_of(10) && !shard_word::of_span(5, 10).duty_of(9) && shard_word{0}.duty_of(1));
static_assert(shard_word{shard_word::being_reset + 40}.is_being_reset() && !shard_word{shard_word::being_reset}.is_idle() &&
              !shard_word{shard_word::being_reset}.duty_of(1) && !shard_word{1}.is_being_reset() &&
              !shard_word::of_span(1, 9).is_being_reset());
static_assert(shard_word{shard_word::of_span(5, 8000).bits + 5000}.may_be_near_next(5, 969, 4031) &&
              !shard_word{shard_word::of_span(5, 8000).bits + 5000}.may_be_near_next(5, 968, 4031) &&
              shard_word{shard_word::of_span(5, 8000).bits + 5000}.may_be_near_next(5, 7999, 0) &&
              !shard_word{shard_word::of_span(5, 8000).bits + 5000}.may_be_near_next(5, 4999, 0) &&
              !shard_word{shard_word::of_span(5, 8000).bits + 5000}.may_be_near_next(6, 5000, 4031));

// The tag of a segment or a page. A thread that has only an address finds the span by this tag. Each segment of a span of segments has a
// tag, and each page of a span of pages. Tags are written before the span is published, and cleared before its memory is released.
//
//   0            not in use
//   broken_up    the segment's pages have tags of their own
//   slotted      {1 : 1, successor : 1, odd / 2 : 2, shift : 5, length - 1 : 6, distance : 6, shard : 4, may have unclaimed : 1, class : 6}
//   large        the segment or page begins one large allocation
struct span_tag {
  using word = simt::uint32_t;
  static constexpr word slotted = 0x80000000;
  static constexpr word large_head = 0x40000000;
  static constexpr word broken_up = 1;

  word bits = 0;

  // The tag of the first unit (segment or page) of a span. The tag of unit i is larger by i * one_further.
  [[nodiscard]] GPUHEAP_HD static constexpr span_tag of_slots(unsigned size_class, unsigned length, unsigned shard, bool fresh) {
    return {slotted | size_classes::odd_factor(size_class) / 2 << 28 | size_classes::shift(size_class) << 23 | (length - 1) << 17 |
            shard << 7 | (fresh ? 1u << 6 : 0u) | size_class};
  }
  static constexpr word one_further = 1u << 11;
  [[nodiscard]] GPUHEAP_HD constexpr span_tag as_successor(bool is_one) const { return {is_one ? bits | 1u << 30 : bits}; }

  [[nodiscard]] GPUHEAP_HD constexpr bool is_slotted() const { return (bits & slotted) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits & 63; }
  // Whether the span may have unclaimed slots; the shard word tells whether it has. The bit stays set when the last slot is claimed.
  [[nodiscard]] GPUHEAP_HD constexpr bool may_have_unclaimed() const { return (bits >> 6 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return bits >> 7 & 15; }
  // Whether a refill published the span after another one was used up, in a class for which the launch uses several shards.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_successor() const { return (bits >> 30 & 1) != 0; }
  // distance(): how many units (segments or pages) this one lies after the span's first one. length(): the number of the span's units.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned distance() const { return bits >> 11 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned length() const { return (bits >> 17 & 63) + 1; }
  // The slot size is odd_factor() * 2^shift(); see size_classes. Both follow from the class, but the tag holds them because every free
  // needs them.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shift() const { return bits >> 23 & 31; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned odd_factor() const { return (bits >> 27 & 6) | 1; }
};
static_assert(span_tag::of_slots(59, 64, 15, true).size_class() == 59 && span_tag::of_slots(59, 64, 15, true).length() == 64 &&
              span_tag::of_slots(59, 64, 15, true).shard() == 15 && span_tag::of_slots(59, 64, 15, true).may_have_unclaimed() &&
              span_tag{span_tag::of_slots(59, 64, 15, false).bits + 63 * span_tag::one_further}.distance() == 63 &&
              span_tag{span_tag::of_slots(59, 64, 15, false).bits + 63 * span_tag::one_further}.length() == 64 &&
              span_tag::of_slots(59, 64, 15, true).as_successor(true).odd_factor() == span_tag::of_slots(59, 64, 15, true).odd_factor() &&
              span_tag::of_slots(0, 1, 0, false).is_slotted() && span_tag::of_slots(59, 64, 15, true).bits != span_tag::large_head);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
