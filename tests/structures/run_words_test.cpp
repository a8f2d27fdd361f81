// The packed words of a run: what goes in comes out, no field reaches into its neighbour, and a draw's duty.
#include "../support/rng.hpp"

#include <gpuheap/structures/run_words.hpp>
#include <gpuheap/structures/size_classes.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace structures_test {
namespace {

using gpuheap::structures::run_header;
using gpuheap::structures::segment_tag;
using gpuheap::structures::shard_word;
namespace classes = gpuheap::structures::size_classes;

constexpr unsigned max_order = 6;
constexpr unsigned generations = 1u << 20;

// ---- run_header

TEST(RunHeader, ARunOfSlotsKeepsItsClassOrderAndGeneration) {
  test::rng random{1};
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned order = 0; order <= max_order; ++order) {
      for (unsigned generation : {0u, 1u, generations - 1, random.below(generations)}) {
        run_header const h = run_header::fresh_slots(c, order, generation);
        ASSERT_EQ(h.size_class(), c);
        ASSERT_EQ(h.order(), order);
        ASSERT_EQ(h.generation(), generation);
        ASSERT_EQ(h.full_groups(), 0u);
        ASSERT_EQ(h.accounted(), 0u);
        ASSERT_TRUE(h.is_bound());
        ASSERT_FALSE(h.is_large());
        for (unsigned other = 0; other < classes::count; ++other) ASSERT_EQ(h.serves(other), other == c);
      }
    }
  }
}

TEST(RunHeader, ALargeAllocationKeepsItsLength) {
  for (unsigned segments : {1u, 2u, 65u, shard_word::max_segments, 0xffffffffu}) {
    for (unsigned generation : {0u, 1u, generations - 1}) {
      run_header const h = run_header::fresh_large(segments, generation);
      EXPECT_EQ(h.large_segments(), segments);
      EXPECT_EQ(h.generation(), generation);
      EXPECT_TRUE(h.is_large());
      EXPECT_FALSE(h.is_bound());
      EXPECT_FALSE(h.serves(h.size_class()));
    }
  }
}

TEST(RunHeader, AnUnusedOneKeepsOnlyItsGeneration) {
  run_header const h = run_header::unused(generations - 1);
  EXPECT_EQ(h.generation(), generations - 1);
  EXPECT_FALSE(h.is_large());
  EXPECT_FALSE(h.is_bound());
  EXPECT_FALSE(h.serves(0));
}

TEST(RunHeader, TheGenerationWrapsWithoutTouchingTheRest) {
  EXPECT_EQ(run_header::fresh_slots(59, 6, generations).bits, run_header::fresh_slots(59, 6, 0).bits);
  EXPECT_EQ(run_header::fresh_large(7, generations + 3).bits, run_header::fresh_large(7, 3).bits);
}

// Counts of groups and slots are added and subtracted by different threads, each in its own order.
TEST(RunHeader, CountsDoNotReachIntoEachOther) {
  run_header const fresh = run_header::fresh_slots(42, 3, 12345);
  for (int groups : {-1024, -1, 0, 1, 66, 3071}) {
    for (unsigned accounted : {0u, 1u, 32u, shard_word::max_slots, (1u << 20) - 1}) {
      run_header h = fresh;
      h.bits += accounted * run_header::accounted_one;
      h.bits += static_cast<run_header::word>(static_cast<std::int64_t>(groups)) * run_header::full_one;
      ASSERT_EQ(static_cast<int>(h.full_groups()), groups);
      ASSERT_EQ(h.accounted(), accounted);
      ASSERT_TRUE(h.is_bound());
      ASSERT_TRUE(h.serves(42));
      ASSERT_EQ(h.order(), 3u);
      ASSERT_EQ(h.generation(), 12345u);
      // The end of a sweep takes both off at once.
      h.bits -= accounted * run_header::accounted_one + run_header::bound;
      ASSERT_FALSE(h.is_bound());
      ASSERT_EQ(h.accounted(), 0u);
      ASSERT_EQ(static_cast<int>(h.full_groups()), groups);
      ASSERT_EQ(h.bits + run_header::bound - static_cast<run_header::word>(static_cast<std::int64_t>(groups)), fresh.bits);
    }
  }
}

// ---- shard_word

TEST(ShardWord, ARunKeepsItsSegmentSlotsOrderAndKind) {
  test::rng random{2};
  for (unsigned i = 0; i < 20000; ++i) {
    unsigned const segment = i == 0 ? shard_word::max_segments - 1 : random.below(shard_word::max_segments);
    unsigned const slots = i == 0 ? shard_word::max_slots : 1 + random.below(shard_word::max_slots);
    unsigned const order = random.below(max_order + 1);
    bool const sweep = random.below(2) != 0;
    shard_word w = shard_word::of_run(segment, slots, order, sweep);
    ASSERT_EQ(w.next(), 0u);
    // Draws, up to what the field holds.
    w.bits += i % 2 == 0 ? random.below(1u << 24) : (1u << 24) - 1;
    ASSERT_EQ(w.segment(), segment);
    ASSERT_EQ(w.num_slots(), slots);
    ASSERT_EQ(w.order(), order);
    ASSERT_EQ(w.is_sweep(), sweep);
    ASSERT_TRUE(w.has_run());
    ASSERT_FALSE(w.is_idle());
    ASSERT_EQ(w.has_room(), w.next() < slots);
  }
}

TEST(ShardWord, DutyGoesToTheDrawThatFindsItIdleOrReachesTheEnd) {
  struct {
    char const* what;
    unsigned num_slots, next, drawn;
    bool duty;
  } const table[] = {
      {"idle, one lane", 0, 0, 1, true},
      {"idle, a warp", 0, 0, 32, true},
      {"no run, somebody fetches one", 0, 1, 1, false},
      {"no run, many wait", 0, 5000, 32, false},
      {"one slot, drawn", 1, 0, 1, true},
      {"one slot, overdrawn", 1, 0, 32, true},
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
    for (bool sweep : {false, true}) {
      shard_word w{};
      if (row.num_slots != 0) w = shard_word::of_run(17, row.num_slots, 2, sweep);
      w.bits += row.next;
      EXPECT_EQ(w.duty_of(row.drawn), row.duty) << row.what;
    }
  }
}

TEST(ShardWord, OneDrawOfARunHasTheDutyWhateverTheSizes) {
  test::rng random{3};
  for (unsigned i = 0; i < 3000; ++i) {
    unsigned const slots = i % 7 == 0 ? 0 : 1 + random.below(200);
    shard_word w = slots == 0 ? shard_word{} : shard_word::of_run(random.below(shard_word::max_segments), slots, 0, i % 2 != 0);
    unsigned duties = 0;
    for (unsigned drawn = 0; drawn < slots + 100;) {
      unsigned const n = 1 + random.below(32);
      duties += w.duty_of(n);
      w.bits += n;
      drawn += n;
    }
    ASSERT_EQ(duties, 1u) << slots << " slots";
  }
}

// ---- segment_tag

TEST(SegmentTag, ATagOfSlotsKeepsItsFields) {
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned order = 0; order <= max_order; ++order) {
      for (unsigned shard = 0; shard < 16; ++shard) {
        for (bool fresh : {false, true}) {
          segment_tag const tag = segment_tag::of_slots(c, order, shard, fresh);
          ASSERT_TRUE(tag.is_slotted());
          ASSERT_EQ(tag.size_class(), c);
          ASSERT_EQ(tag.order(), order);
          ASSERT_EQ(tag.shard(), shard);
          ASSERT_EQ(tag.maybe_fresh(), fresh);
          ASSERT_NE(tag.bits, segment_tag::large_head);
          ASSERT_NE(tag.bits, segment_tag::large_body);
        }
      }
    }
  }
}

TEST(SegmentTag, OtherSegmentsAreNotSlotted) {
  EXPECT_FALSE(segment_tag{}.is_slotted());
  EXPECT_FALSE(segment_tag{segment_tag::large_head}.is_slotted());
  EXPECT_FALSE(segment_tag{segment_tag::large_body}.is_slotted());
  EXPECT_NE(segment_tag::large_head, segment_tag::large_body);
}

}  // namespace
}  // namespace structures_test
