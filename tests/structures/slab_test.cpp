// Bits claimed from a place on, segments of them with hints, and the word of a slab: one call at a time, and contended.
#include "slab_checks.hpp"

#include <algorithm>
#include <set>

namespace structures_test {

// Kernel, one thread: claims until nothing is left, `more` times beyond, gives back what `give` says and claims again.
struct claim_bits_in_order {
  free_bits bits;
  unsigned start;
  unsigned* claimed;

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned n = 0; n <= bits.count; ++n) claimed[n] = bits.claim(start);
  }
};
struct give_bit {
  free_bits bits;
  unsigned bit;
  unsigned* before;

  GPUHEAP_FN void operator()(unsigned) const { *before = bits.release(bit); }
};
// Kernel, a warp: lanes give the things back whose bits are their own, together.
struct give_together {
  free_bits bits;
  free_bits::word things;
  unsigned* before;  // by lane

  GPUHEAP_FN void operator()(unsigned i) const {
    before[i] = 0;
    if ((things >> i & 1) != 0) before[i] = bits.release_together(simt::active_mask(), things);
  }
};
// Kernel, one thread: fills all things, then gives back those whose number is a multiple of `every`, each twice.
struct fill_hinted {
  hinted_bits all;
  unsigned start;
  unsigned* claimed;

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned n = 0; n < all.count; ++n) claimed[n] = all.claim((start + n) % all.count);
  }
};
struct give_hinted {
  hinted_bits all;
  unsigned every;
  unsigned* answers;  // true: a bit each

  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned i = 0; i < all.count; i += every) answers[i] = (all.release(i) ? 1u : 0u) | (all.release(i) ? 2u : 0u);
  }
};

namespace {

TEST(FreeBits, LanesGiveBackTogetherWhatIsTheirs) {
  free_bits::word const taken = 0xf0ff00ffu, things = 0x0fff0f0fu;
  test::device_array<unsigned> word(std::vector<unsigned>{taken}), before(32);
  gpuheap::launch(32, give_together{{word.data(), 32}, things, before.data()});
  EXPECT_EQ(word.first(), taken & ~things);
  auto const said = before.read();
  // All lanes that called come together in the simulator, as on a GPU; each is told what was there.
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(said[i], (things >> i & 1) != 0 ? taken : 0u) << "lane " << i;
}
TEST(FreeBits, TheNextClearBitIsThatOfBruteForce) {
  for (unsigned k = 0; k < 3000; ++k) {
    auto taken = static_cast<free_bits::word>(test::mix(k));
    if (k % 3 == 0) taken |= static_cast<free_bits::word>(test::mix(k + 9000)) | static_cast<free_bits::word>(test::mix(k + 18000));
    if (k % 7 == 0) taken = ~(free_bits::word{1} << k % 32);
    if (taken == ~free_bits::word{0}) continue;
    for (unsigned from = 0; from < 32; ++from) {
      unsigned expected = from;
      while ((taken >> expected & 1) != 0) expected = (expected + 1) % 32;
      ASSERT_EQ(free_bits::next_clear(taken, from), expected) << taken << " from " << from;
    }
  }
}

TEST(FreeBits, GivesEachBitOnceFromTheStartOnAndAround) {
  for (unsigned count : {1u, 2u, 31u, 32u}) {
    for (unsigned start = 0; start < count; ++start) {
      test::device_array<unsigned> word(1), claimed(count + 1);
      gpuheap::launch(1, claim_bits_in_order{{word.data(), count}, start, claimed.data()});
      auto const got = claimed.read();
      for (unsigned n = 0; n < count; ++n) ASSERT_EQ(got[n], (start + n) % count) << count << " from " << start;
      ASSERT_EQ(got[count], free_bits::none);
      ASSERT_EQ(word.first(), free_bits::bits_of(count));
    }
  }
}

TEST(FreeBits, TellsASecondReleaseFromTheFirst) {
  test::device_array<unsigned> word(std::vector<unsigned>{0x80000003u}), before(1);
  free_bits const bits{word.data(), 32};
  for (unsigned bit : {31u, 0u}) {
    gpuheap::launch(1, give_bit{bits, bit, before.data()});
    EXPECT_EQ(before.first() >> bit & 1, 1u);
    gpuheap::launch(1, give_bit{bits, bit, before.data()});
    EXPECT_EQ(before.first() >> bit & 1, 0u);
  }
  EXPECT_EQ(word.first(), 2u);
}

TEST(FreeBits, ChangeHands) {
  EXPECT_EQ(bits_of_a_word_change_hands<free_bits>(many_threads, 32, 20), "");
  EXPECT_EQ(bits_of_a_word_change_hands<free_bits>(many_threads, 5, 20), "");
}
TEST(FreeBits, ChangeHandsUnderManySchedules) {
  expect_passes(1000, [] { return bits_of_a_word_change_hands<free_bits>(explored_threads, 32, 6); });
  expect_passes(1000, [] { return bits_of_a_word_change_hands<free_bits>(5, 3, 8); });
}

TEST(FreeBits, ClaimedTogetherChangeHands) { EXPECT_EQ(bits_claimed_together_change_hands<free_bits>(many_threads, 20), ""); }
TEST(FreeBits, ClaimedTogetherChangeHandsUnderManySchedules) {
  expect_passes(1000, [] { return bits_claimed_together_change_hands<free_bits>(explored_threads, 5); });
}

TEST(HintedBits, HintsAreThoseOfFullSegments) {
  for (unsigned count : {1u, 32u, 33u, 64u, 127u, 254u, 1000u, 1024u}) {
    for (unsigned start : {0u, count / 2, count - 1}) {
      unsigned const n = hinted_bits::segments_for(count);
      test::device_array<unsigned> hints(1), segments(n), claimed(count), answers(count);
      hinted_bits const all{hints.data(), segments.data(), count};
      gpuheap::launch(1, fill_hinted{all, start, claimed.data()});
      auto const got = claimed.read();
      EXPECT_EQ(std::set<unsigned>(got.begin(), got.end()).size(), count);
      EXPECT_LT(*std::max_element(got.begin(), got.end()), count);
      std::vector<bool> given(count);
      for (unsigned every : {count / 3 + 2, 1u}) {
        gpuheap::launch(1, give_hinted{all, every, answers.data()});
        auto const hint = hints.first();
        auto const now = segments.read();
        for (unsigned s = 0; s < n; ++s) {
          EXPECT_TRUE((hint >> s & 1) == 0 || all.segment(s).is_full(now[s])) << count << ", segment " << s;
        }
        auto const said = answers.read();
        for (unsigned i = 0; i < count; i += every) {
          EXPECT_EQ(said[i], given[i] ? 0u : 1u) << count << ", thing " << i;
          given[i] = true;
        }
      }
      EXPECT_EQ(hints.first(), 0u);
      for (unsigned word : segments.read()) EXPECT_EQ(word, 0u);
    }
  }
}

TEST(SlabWord, KeepsItsFieldsApart) {
  for (unsigned kind : {0u, 1u, 255u, slab_word::max_kind - 1, slab_word::max_kind}) {
    for (unsigned fill : {0u, 1u, 1024u, slab_word::max_fill}) {
      slab_word const word = slab_word::of(kind, fill);
      EXPECT_EQ(word.kind(), kind);
      EXPECT_EQ(word.fill(), fill);
      EXPECT_EQ(word.is_free(), fill == 0);
      EXPECT_FALSE(word.is_opening());
      EXPECT_TRUE(slab_word{word.bits | slab_word::opening}.is_opening());
      EXPECT_EQ(slab_word{word.bits | slab_word::opening}.kind(), kind);
    }
  }
}

TEST(SlabState, ChunksOfTwoKindsChangeHands) {
  EXPECT_EQ((chunks_change_hands<slab_state, hinted_bits>(many_threads / 8, 254, 12)), "");
  EXPECT_EQ((chunks_change_hands<slab_state, hinted_bits>(many_threads / 8, 2, 12)), "");
}
TEST(SlabState, ChunksOfTwoKindsChangeHandsUnderManySchedules) {
  expect_passes(1000, [] { return chunks_change_hands<slab_state, hinted_bits>(explored_threads, 70, 4); });
  expect_passes(3000, [] { return chunks_change_hands<slab_state, hinted_bits>(6, 2, 5); });
  expect_passes(1000, [] { return chunks_change_hands<slab_state, hinted_bits>(33, 36, 5); });
}

}  // namespace
}  // namespace structures_test
