// Bits, hints and slab words with one mistake each. Exploration finds every one of them within the stated number of seeds, so the checks,
// which the real ones pass, can fail.
#include "slab_checks.hpp"

namespace structures_test {
namespace {

template <class Check>
void expect_found(std::uint64_t within_seeds, Check check) {
  simt::exploration const e = simt::explore(within_seeds, [&] { return check().empty(); });
  EXPECT_TRUE(e.failed) << "not found within " << within_seeds << " seeds";
  testing::Test::RecordProperty("seed", std::to_string(e.seed));
}

// ---- free_bits

// A claim that does not acquire: the new owner of a bit races with the last one.
struct bits_with_relaxed_claim : free_bits {
  unsigned claim(unsigned start) const {
    for (unsigned bit = start;;) {
      word const before = ref().fetch_or(word{1} << bit, simt::relaxed) | ~bits_of(count);
      if ((before >> bit & 1) == 0) return bit;
      if (before == ~word{0}) return none;
      bit = next_clear(before, bit);
    }
  }
};
// A claim that looks first and sets the bit afterwards.
struct bits_that_look_first : free_bits {
  unsigned claim(unsigned start) const {
    word const seen = ref().load(simt::acquire);
    if (is_full(seen)) return none;
    unsigned const bit = next_clear(seen | ~bits_of(count), start);
    ref().fetch_or(word{1} << bit, simt::acq_rel);
    return bit;
  }
};
// Bits claimed together whose lanes go on without waiting for their leader: they have not acquired what it did.
struct bits_without_barrier : free_bits {
  bool claim_together(simt::lane_mask group, unsigned bit, bool wants) const {
    word* const where = wants ? taken : nullptr;
    simt::lane_mask const same = simt::match_any(group, reinterpret_cast<simt::uintptr_t>(where));
    word const mine = wants ? word{1} << bit : 0, all = simt::reduce_or(same, mine);
    word before = 0;
    if (wants && simt::lane_id() == simt::lowest_bit(same)) before = ref().fetch_or(all, simt::relay);
    before = simt::shuffle(same, before, simt::lowest_bit(same));
    return wants && (before & mine) == 0;
  }
};
TEST(FreeBitsMutants, LanesThatDoNotWaitForTheirLeaderAreFoundWithin300Seeds) {
  expect_found(300, [] { return bits_claimed_together_change_hands<bits_without_barrier>(explored_threads, 5); });
}
// A release that stores what it has seen without the bit: bits set meanwhile are lost.
struct bits_with_stored_release : free_bits {
  word release(unsigned bit) const {
    word const seen = ref().load(simt::acquire);
    ref().store(seen & ~(word{1} << bit), simt::release);
    return seen;
  }
};

TEST(FreeBitsMutants, RelaxedClaimIsFoundWithin20Seeds) {
  expect_found(20, [] { return bits_of_a_word_change_hands<bits_with_relaxed_claim>(explored_threads, 32, 6); });
}
TEST(FreeBitsMutants, ALookApartFromTheClaimIsFoundWithin20Seeds) {
  expect_found(20, [] { return bits_of_a_word_change_hands<bits_that_look_first>(explored_threads, 32, 6); });
}
TEST(FreeBitsMutants, AReleaseThatStoresIsFoundWithin20Seeds) {
  expect_found(20, [] { return bits_of_a_word_change_hands<bits_with_stored_release>(explored_threads, 32, 6); });
}

// ---- hinted_bits

// The base of mutants of the search for a segment, each with a hint() of its own.
template <class Mutant>
struct chunks_that_search : hinted_bits {
  unsigned claim(unsigned start) const {
    unsigned s = start / 32, bit = segment(s).claim(start % 32);
    for (; bit == free_bits::none; bit = segment(s).claim(0)) {
      static_cast<Mutant const*>(this)->hint(s);
      unsigned const n = segments_for(count);
      s = s + 1 == n ? 0 : s + 1;
      word const passed_over = simt::global_ref<word>{*hints}.load(simt::relaxed) | ~free_bits::bits_of(n);
      if (passed_over != ~word{0}) s = free_bits::next_clear(passed_over, s);
    }
    return s * 32 + bit;
  }
};
// A hint that is not confirmed: a segment that ceased to be full just before stays marked.
struct chunks_without_second_look : chunks_that_search<chunks_without_second_look> {
  void hint(unsigned s) const { simt::global_ref<word>{*hints}.fetch_or(word{1} << s, simt::acq_rel); }
};
// A hint that is confirmed before it is set.
struct chunks_that_look_first : chunks_that_search<chunks_that_look_first> {
  void hint(unsigned s) const {
    if (segment(s).is_full(segment(s).ref().load(simt::acquire))) simt::global_ref<word>{*hints}.fetch_or(word{1} << s, simt::acq_rel);
  }
};
// Orders that let the second look miss the release whose change of the hints it has seen.
struct chunks_with_relaxed_hints : chunks_that_search<chunks_with_relaxed_hints> {
  void hint(unsigned s) const {
    simt::global_ref<word> const all{*hints};
    all.fetch_or(word{1} << s, simt::relaxed);
    if (!segment(s).is_full(segment(s).ref().load(simt::relaxed))) all.fetch_and(~(word{1} << s), simt::relaxed);
  }
};

TEST(HintedBitsMutants, AHintThatIsNotConfirmedIsFoundWithin2000Seeds) {
  expect_found(2000, [] { return chunks_change_hands<slab_state, chunks_without_second_look>(33, 36, 5); });
}
TEST(HintedBitsMutants, AHintThatIsConfirmedBeforeIsFoundWithin4000Seeds) {
  expect_found(4000, [] { return chunks_change_hands<slab_state, chunks_that_look_first>(33, 36, 5); });
}
TEST(HintedBitsMutants, RelaxedHintsAreFoundWithin4000Seeds) {
  expect_found(4000, [] { return chunks_change_hands<slab_state, chunks_with_relaxed_hints>(33, 36, 5); });
}

// ---- slab_state

// Counts in by an addition, and looks afterwards whether the slab is still what it was: it may have been full already, or of another kind
// in between.
struct slab_that_adds : slab_state {
  bool reserve(slab_word& seen, unsigned n) const {
    slab_word const before{ref().fetch_add(n, simt::acq_rel)};
    if (before.kind() == seen.kind()) return true;
    ref().fetch_sub(n, simt::acq_rel);
    seen = look();
    return false;
  }
};
// The kind alone is compared, and the count stored from what was seen.
struct slab_that_stores : slab_state {
  bool reserve(slab_word& seen, unsigned n) const {
    slab_word const now{ref().load(simt::acquire)};
    if (now.bits != seen.bits) {
      seen = now;
      return false;
    }
    ref().store(seen.bits + n, simt::release);
    return true;
  }
};
// Others count in while the slab is still being prepared.
struct slab_without_opening : slab_state {
  bool open(slab_word& seen, unsigned kind, unsigned n, bool) const { return slab_state::open(seen, kind, n, false); }
  void publish(unsigned, unsigned) const {}
};
// The preparation is not released.
struct slab_with_relaxed_publish : slab_state {
  void publish(unsigned kind, unsigned n) const { ref().store(slab_word::of(kind, n).bits, simt::relaxed); }
};
// The thread that opens the slab is not ordered after the threads that gave slots back.
struct slab_with_relaxed_open : slab_state {
  bool open(slab_word& seen, unsigned kind, unsigned n, bool) const {
    return ref().compare_exchange(seen.bits, slab_word::of(kind, n).bits | slab_word::opening, simt::relaxed, simt::relaxed);
  }
};

TEST(SlabStateMutants, AdditionsAreFoundWithin400Seeds) {
  expect_found(400, [] { return chunks_change_hands<slab_that_adds, hinted_bits>(6, 2, 5); });
}
TEST(SlabStateMutants, StoredCountsAreFoundWithin20Seeds) {
  expect_found(20, [] { return chunks_change_hands<slab_that_stores, hinted_bits>(explored_threads, 70, 4); });
}
TEST(SlabStateMutants, CountingInDuringTheOpeningIsFoundWithin400Seeds) {
  expect_found(400, [] { return chunks_change_hands<slab_without_opening, hinted_bits>(6, 2, 5); });
}
TEST(SlabStateMutants, ARelaxedPublishIsFoundWithin2000Seeds) {
  expect_found(2000, [] { return chunks_change_hands<slab_with_relaxed_publish, hinted_bits>(12, 4, 8); });
}
TEST(SlabStateMutants, ARelaxedOpenIsFoundWithin400Seeds) {
  expect_found(400, [] { return chunks_change_hands<slab_with_relaxed_open, hinted_bits>(6, 2, 5); });
}

}  // namespace
}  // namespace structures_test
