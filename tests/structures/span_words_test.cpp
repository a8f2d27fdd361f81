// The packed words of a span: a packed value reads back unchanged, no field reaches into its neighbour, and a claim's duty.
#include "../support/rng.hpp"

#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/slot_map.hpp>
#include <gpuheap/structures/span_words.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace structures_test {
namespace {

using gpuheap::structures::shard_word;
using gpuheap::structures::slot_map;
using gpuheap::structures::span_header;
using gpuheap::structures::span_tag;
namespace classes = gpuheap::structures::size_classes;

constexpr unsigned max_length = span_header::max_length;
constexpr unsigned generations = 1u << 16;

// ---- span_header

TEST(SpanHeader, ASpanOfSlotsKeepsItsClassLengthAndGeneration) {
  test::rng random{1};
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned length = 1; length <= max_length; ++length) {
      bool const of_segments = random.below(2) != 0;
      for (unsigned generation : {0u, 1u, generations - 1, random.below(generations)}) {
        span_header const h = span_header::new_span(c, length, of_segments, generation);
        ASSERT_EQ(h.size_class(), c);
        ASSERT_EQ(h.length(), length);
        ASSERT_EQ(h.of_segments(), of_segments);
        ASSERT_EQ(h.generation(), generation);
        ASSERT_EQ(h.full_groups(), 0u);
        ASSERT_EQ(h.accounted(), 0u);
        ASSERT_TRUE(h.is_active());
        ASSERT_FALSE(h.is_large());
        for (unsigned other = 0; other < classes::count; ++other) ASSERT_EQ(h.serves(other), other == c);
      }
    }
  }
}

TEST(SpanHeader, ALargeAllocationKeepsItsLength) {
  for (unsigned pages : {1u, 2u, 65u, shard_word::max_pages, 0xffffffffu}) {
    for (unsigned generation : {0u, 1u, generations - 1}) {
      span_header const h = span_header::large_allocation(pages, generation);
      EXPECT_EQ(h.large_pages(), pages);
      EXPECT_EQ(h.generation(), generation);
      EXPECT_TRUE(h.is_large());
      EXPECT_FALSE(h.is_active());
      EXPECT_FALSE(h.serves(h.size_class()));
    }
  }
}

TEST(SpanHeader, AnUnusedOneKeepsOnlyItsGeneration) {
  span_header const h = span_header::unused(generations - 1);
  EXPECT_EQ(h.generation(), generations - 1);
  EXPECT_FALSE(h.is_large());
  EXPECT_FALSE(h.is_active());
  EXPECT_FALSE(h.serves(0));
}

TEST(SpanHeader, TheGenerationWrapsWithoutTouchingTheRest) {
  EXPECT_EQ(span_header::new_span(59, 64, true, generations).bits, span_header::new_span(59, 64, true, 0).bits);
  EXPECT_EQ(span_header::large_allocation(7, generations + 3).bits, span_header::large_allocation(7, 3).bits);
}

// One addition makes a span of unused memory, whatever its generation was.
TEST(SpanHeader, AnAdditionMakesUnusedMemoryTheNextSpan) {
  test::rng random{4};
  for (unsigned i = 0; i < 5000; ++i) {
    unsigned const c = random.below(classes::count), length = 1 + random.below(max_length);
    bool const of_segments = random.below(2) != 0;
    unsigned const last = i == 0 ? generations - 1 : random.below(generations);
    span_header const h{span_header::unused(last).bits + span_header::to_new_span(c, length, of_segments)};
    ASSERT_EQ(h.bits, span_header::new_span(c, length, of_segments, (last + 1) % generations).bits);
  }
}

TEST(SpanHeader, UnitsAreSubtractedFromTheLengthAlone) {
  for (unsigned length = 1; length <= max_length; ++length) {
    for (unsigned kept = 1; kept <= length; ++kept) {
      span_header const h{span_header::new_span(9, length, true, 77).bits - (length - kept) * span_header::length_one};
      ASSERT_EQ(h.bits, span_header::new_span(9, kept, true, 77).bits);
    }
  }
}

// Counts of groups and slots are added and subtracted by different threads, each in its own order.
TEST(SpanHeader, CountsDoNotReachIntoEachOther) {
  span_header const fresh = span_header::new_span(42, 3, false, 12345);
  for (int groups : {-1024, -1, 0, 1, 66, 1023}) {
    for (unsigned accounted : {0u, 1u, 32u, shard_word::max_slots, (1u << 20) - 1}) {
      span_header h = fresh;
      h.bits += accounted * span_header::accounted_one;
      h.bits += static_cast<span_header::word>(static_cast<std::int64_t>(groups)) * span_header::full_one;
      ASSERT_EQ(static_cast<int>(h.full_groups()), groups);
      ASSERT_FALSE(h.must_relist());
      ASSERT_EQ(h.accounted(), accounted);
      ASSERT_TRUE(h.is_active());
      ASSERT_TRUE(h.serves(42));
      ASSERT_EQ(h.length(), 3u);
      ASSERT_FALSE(h.of_segments());
      ASSERT_EQ(h.generation(), 12345u);
      // The end of a reused takes both off at once.
      h.bits -= accounted * span_header::accounted_one + span_header::active;
      ASSERT_FALSE(h.is_active());
      ASSERT_EQ(h.accounted(), 0u);
      ASSERT_EQ(static_cast<int>(h.full_groups()), groups);
      ASSERT_EQ(h.bits + span_header::active - static_cast<span_header::word>(static_cast<std::int64_t>(groups)), fresh.bits);
    }
  }
}

TEST(SpanHeader, ActiveAgainItIsAsBeforeAndNotToBeRelisted) {
  span_header const active{span_header::new_span(42, 3, true, 12345).bits + 7 * span_header::full_one};
  span_header const inactive{active.bits - span_header::active}, relist{inactive.bits | span_header::relist};
  EXPECT_FALSE(inactive.is_active());
  EXPECT_FALSE(inactive.must_relist());
  EXPECT_TRUE(relist.must_relist());
  EXPECT_EQ(relist.full_groups(), 7u);
  EXPECT_EQ(inactive.active_again().bits, active.bits);
  EXPECT_EQ(relist.active_again().bits, active.bits);
}

// ---- shard_word

TEST(ShardWord, ASpanKeepsItsPageAndSlots) {
  test::rng random{2};
  for (unsigned i = 0; i < 20000; ++i) {
    unsigned const page = i == 0 ? shard_word::max_pages - 1 : random.below(shard_word::max_pages);
    unsigned const slots = i == 0 ? shard_word::max_slots : 1 + random.below(shard_word::max_slots);
    shard_word w = shard_word::of_span(page, slots);
    ASSERT_EQ(w.next(), 0u);
    // Claims, up to what the field holds.
    w.bits += i % 2 == 0 ? random.below(1u << 21) : (1u << 21) - 1;
    ASSERT_EQ(w.page(), page);
    ASSERT_EQ(w.num_slots(), slots);
    ASSERT_EQ(w.num_claims(), slots);
    ASSERT_FALSE(w.is_reused());
    ASSERT_TRUE(w.has_span());
    ASSERT_FALSE(w.is_idle());
    ASSERT_EQ(w.has_room(), w.next() < slots);
  }
}

// The one subtraction answers as two comparisons do, unless the word is overclaimed.
TEST(ShardWord, ASlotIsNearTheFirstUnclaimedOneOfItsSpanOnly) {
  test::rng random{6};
  for (unsigned i = 0; i < 200000; ++i) {
    unsigned const page = random.below(shard_word::max_pages), slots = 1 + random.below(shard_word::max_slots);
    unsigned const next = i % 3 == 0 ? random.below(shard_word::overclaim_limit) : random.below(slots);
    shard_word w{shard_word::of_span(page, slots).bits + next};
    if (i % 5 == 0) w.bits |= shard_word::reused;
    unsigned const of = i % 4 == 0 ? random.below(shard_word::max_pages) : (page + i % 4 - 2) % shard_word::max_pages;
    unsigned const before = i % 2 == 0 ? 62 : 4031,
                   slot = i % 7 == 0 ? (next - before - i % 3) % shard_word::max_slots : random.below(slots);
    ASSERT_EQ(w.may_be_near_next(of, slot, before), of == page && slot + before >= next) << page << ' ' << of << ' ' << slot << ' ' << next;
  }
}

TEST(ShardWord, OnlyASpanWithRoomIsMostlyClaimed) {
  auto const claimed = [](unsigned n) { return shard_word{shard_word::of_span(5, 10).bits + n}; };
  for (bool const successor : {false, true}) {
    for (unsigned n = 0; n < 30; ++n) EXPECT_EQ(claimed(n).mostly_claimed(5, successor), n >= (successor ? 2u : 5u) && n < 10) << n;
    EXPECT_FALSE(claimed(7).mostly_claimed(6, successor));
    EXPECT_FALSE(shard_word{}.mostly_claimed(0, successor)) << "idle";
    EXPECT_FALSE(shard_word{shard_word::being_reset}.mostly_claimed(1, successor));
    EXPECT_FALSE(shard_word{shard_word::of_reused(5, 10, 1).bits + 7}.mostly_claimed(5, successor));
  }
}

TEST(ShardWord, AReusedSpanKeepsItsPageWordsAndClaimsPerWord) {
  test::rng random{5};
  for (unsigned i = 0; i < 20000; ++i) {
    unsigned const page = i == 0 ? shard_word::max_pages - 1 : random.below(shard_word::max_pages);
    unsigned const words = i == 0 ? slot_map::words_for(shard_word::max_slots) : 1 + random.below((1u << 14) - 1);
    unsigned const per_word = i == 0 ? slot_map::slots_per_word : 1 + random.below(slot_map::slots_per_word);
    shard_word w = shard_word::of_reused(page, words, per_word);
    ASSERT_EQ(w.next(), 0u);
    ASSERT_TRUE(w.has_room());
    w.bits += i % 2 == 0 ? random.below(1u << 21) : (1u << 21) - 1;
    ASSERT_EQ(w.page(), page);
    ASSERT_EQ(w.reused_words(), words);
    ASSERT_EQ(w.claims_per_word(), per_word);
    ASSERT_EQ(w.num_claims(), words * per_word);
    ASSERT_TRUE(w.is_reused());
    ASSERT_TRUE(w.has_span());
    ASSERT_FALSE(w.is_idle());
    ASSERT_EQ(w.has_room(), w.next() < words * per_word);
  }
}

// The header's field accounts the claims of a reused span, so the claims of the longest reused span must fit into it.
TEST(ShardWord, TheClaimsOfTheLongestReusedSpanFitTheHeader) {
  unsigned const words = slot_map::words_for(shard_word::max_slots);
  EXPECT_LT(words, 1u << 14);
  EXPECT_LE(words * slot_map::slots_per_word, span_header::accounted_mask);
}

// A span of so many claims, fresh or to be reused; the reuses' words have 1 claim, then 2, and so on, where that divides.
std::vector<shard_word> spans_of(unsigned page, unsigned num_claims) {
  if (num_claims == 0) return {shard_word{}};
  std::vector<shard_word> all{shard_word::of_span(page, num_claims)};
  for (unsigned per_word = 1; per_word <= slot_map::slots_per_word; ++per_word) {
    if (num_claims % per_word == 0) all.push_back(shard_word::of_reused(page, num_claims / per_word, per_word));
  }
  return all;
}

TEST(ShardWord, DutyGoesToTheClaimThatFindsItIdleOrReachesTheEnd) {
  struct {
    char const* what;
    unsigned num_claims, next, claimed;
    bool duty;
  } const table[] = {
      {"idle, one lane", 0, 0, 1, true},
      {"idle, a warp", 0, 0, 32, true},
      {"no span, a refill is under way", 0, 1, 1, false},
      {"no span, many wait", 0, 5000, 32, false},
      {"one slot, claimed", 1, 0, 1, true},
      {"one slot, overclaimed", 1, 0, 32, true},
      {"room for more", 100, 0, 32, false},
      {"all but one", 100, 0, 99, false},
      {"exactly all", 100, 0, 100, true},
      {"up to the last but one", 100, 67, 32, false},
      {"up to the last", 100, 68, 32, true},
      {"beyond the last", 100, 99, 32, true},
      {"past the end by nothing", 100, 100, 1, false},
      {"past the end", 100, 131, 32, false},
  };
  for (auto const& row : table) {
    for (shard_word w : spans_of(17, row.num_claims)) {
      w.bits += row.next;
      EXPECT_EQ(w.duty_of(row.claimed), row.duty) << row.what;
    }
  }
}

TEST(ShardWord, OneClaimOfASpanHasTheDutyWhateverTheSizes) {
  test::rng random{3};
  for (unsigned i = 0; i < 3000; ++i) {
    unsigned const claims = i % 7 == 0 ? 0 : 1 + random.below(200);
    auto const all = spans_of(random.below(shard_word::max_pages), claims);
    shard_word w = all[random.below(static_cast<unsigned>(all.size()))];
    unsigned duties = 0;
    for (unsigned claimed = 0; claimed < claims + 100;) {
      unsigned const n = 1 + random.below(32);
      duties += w.duty_of(n);
      w.bits += n;
      claimed += n;
    }
    ASSERT_EQ(duties, 1u) << claims << " claims";
  }
}

// The claims of a reused that are there for each word, in order.
TEST(ShardWord, EveryWordOfAReusedSpanIsClaimedEquallyOften) {
  for (unsigned per_word : {1u, 7u, 63u}) {
    shard_word w = shard_word::of_reused(17, 10, per_word);
    std::vector<unsigned> claimed(10);
    // Ends: every claim brings the end closer.
    for (; w.has_room(); ++w.bits) ++claimed[w.next() / w.claims_per_word()];
    EXPECT_EQ(claimed, std::vector<unsigned>(10, per_word));
  }
}

// The short way: all lanes have their slots, and nobody has anything else to do.
TEST(ShardWord, ServesAClaimOfANewSpanThatHasMore) {
  for (unsigned next : {0u, 1u, 67u, 68u, 99u, 100u, 131u}) {
    for (unsigned n : {1u, 2u, 31u, 32u}) {
      for (shard_word w : spans_of(17, 100)) {
        w.bits += next;
        EXPECT_EQ(w.serves(n), !w.is_reused() && next + n < 100) << next << " claimed, then " << n;
        EXPECT_FALSE(w.serves(n) && w.duty_of(n));
      }
      EXPECT_FALSE(shard_word{next}.serves(n)) << "no span";
    }
  }
}

// A group that finds it overclaimed claims no more. What all threads of a device may add until then does not reach the next field.
TEST(ShardWord, IsFarLongBeforeTheFieldIsFull) {
  for (shard_word w : {shard_word{}, shard_word::of_span(17, shard_word::max_slots), shard_word::of_reused(17, 4162, 63)}) {
    EXPECT_FALSE(w.is_overclaimed());
    EXPECT_FALSE(shard_word{w.bits + w.num_claims()}.is_overclaimed()) << "all claimed, and nobody waits";
    EXPECT_FALSE(shard_word{w.bits + shard_word::overclaim_limit - 1}.is_overclaimed());
    EXPECT_TRUE(shard_word{w.bits + shard_word::overclaim_limit}.is_overclaimed());
    shard_word const last{w.bits + (1u << shard_word::page_at) - 1};
    EXPECT_TRUE(last.is_overclaimed());
    EXPECT_EQ(last.page(), w.page());
  }
  constexpr unsigned most_threads = 256 * 2048;
  static_assert(shard_word::overclaim_limit > shard_word::max_slots &&
                shard_word::overclaim_limit + most_threads < 1u << shard_word::page_at);
}

// A free asks the shard's word whether its slot was ever handed out.
TEST(ShardWord, KnowsTheSlotsOfItsNewSpanThatNobodyHasClaimed) {
  shard_word fresh = shard_word::of_span(17, 100), reused = shard_word::of_reused(17, 2, 50);
  for (unsigned claimed = 0; claimed <= 140; claimed += 20, fresh.bits += 20, reused.bits += 20) {
    for (unsigned slot : {0u, 1u, 19u, 20u, 59u, 60u, 99u, 100u, 1000u}) {
      EXPECT_EQ(fresh.is_unclaimed(17, slot), slot >= claimed && slot < 100) << claimed << " claimed, slot " << slot;
      EXPECT_FALSE(fresh.is_unclaimed(16, slot)) << "another span";
      EXPECT_FALSE(reused.is_unclaimed(17, slot)) << "all were handed out before";
    }
  }
  for (unsigned claimed : {0u, 7u}) EXPECT_FALSE(shard_word{claimed}.is_unclaimed(0, claimed)) << "no span";
}

// ---- span_tag

TEST(RunTag, ATagOfSlotsKeepsItsFieldsForEveryUnit) {
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned length = 1; length <= max_length; ++length) {
      unsigned const shard = (c + length) % 16;
      for (bool fresh : {false, true}) {
        span_tag tag = span_tag::of_slots(c, length, shard, fresh);
        for (unsigned i = 0; i < length; ++i, tag.bits += span_tag::one_further) {
          ASSERT_TRUE(tag.is_slotted());
          ASSERT_EQ(tag.size_class(), c);
          ASSERT_EQ(tag.length(), length);
          ASSERT_EQ(tag.distance(), i);
          ASSERT_EQ(tag.shard(), shard);
          ASSERT_EQ(tag.may_have_unclaimed(), fresh);
          ASSERT_EQ(tag.odd_factor() << tag.shift(), classes::slot_bytes(c));
          ASSERT_NE(tag.bits, span_tag::large_head);
        }
      }
    }
  }
}

TEST(RunTag, OtherMemoryIsNotSlotted) {
  EXPECT_FALSE(span_tag{}.is_slotted());
  EXPECT_FALSE(span_tag{span_tag::large_head}.is_slotted());
}

}  // namespace
}  // namespace structures_test
