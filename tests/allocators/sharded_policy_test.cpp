// The default allocator's policy, as plain functions of plain numbers: the plan of a refill. No kernel runs here.
#include <gpuheap/allocators/sharded_spans/demand.hpp>
#include <gpuheap/allocators/sharded_spans/policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sharded_test {
namespace {

namespace sharded = gpuheap::sharded;
namespace classes = gpuheap::structures::size_classes;
using sharded::plan_refill;
using sharded::refill_input;
using sharded::refill_plan;
using sharded::reuse_failures;

constexpr sharded::tuning shipped{};
constexpr sharded::tuning eager{.lg_span_slots = 6, .span_free_divisor = 1, .reuse_free_divisor = 8, .partial_samples = 3};

// A heap of 8 GiB, half of it free, in pages of 64 KiB and segments of 4 MiB. One warp asks for 64 bytes in each lane.
refill_input lone_warp() {
  return {.slot_bytes = 64,
          .lanes = 32,
          .is_uniform = true,
          .is_alone = false,
          .asked = 32,
          .warps = 1,
          .lg_shards = 0,
          .is_large_launch = false,
          .launch = 7,
          .page_shift = 16,
          .lg_pages = 6,
          .max_segments = 8,
          .all_pages = 131072,
          .free_pages = 65536,
          .held_pages = 0,
          .ended_slots = 0,
          .has_partial = false,
          .others_idle = false,
          .failures = {}};
}
refill_input large_launch() {
  refill_input in = lone_warp();
  in.warps = 31250;
  in.lg_shards = 4;
  in.is_large_launch = true;
  return in;
}

// Every combination of sizes, launches and fill levels that a refill can meet, and some more. It varies each member of refill_input that a
// plan's promises might depend on: a new member too.
template <class Visit>
void for_all_inputs(Visit visit) {
  for (unsigned c = 0; c < classes::count; c += 3) {
    for (unsigned const page_shift : {10u, 12u, 16u, 17u}) {
      for (unsigned const free : {0u, 1u, 63u, 64u, 1000u, 65536u, 131071u}) {
        for (unsigned const warps : {1u, 100u, 4096u, 1u << 20}) {
          for (unsigned const lanes : {1u, 20u, 32u}) {
            for (unsigned const held : {0u, 5u, 100000u}) {
              refill_input in = lone_warp();
              in.slot_bytes = classes::slot_bytes(c);
              in.page_shift = page_shift;
              in.max_segments = static_cast<unsigned>(std::min<std::uint64_t>(
                  64, std::uint64_t{in.slot_bytes} * gpuheap::structures::shard_word::max_slots >> (page_shift + 6)));
              in.free_pages = free;
              in.held_pages = std::min(held, in.all_pages - free);
              in.warps = warps;
              in.lanes = in.asked = lanes;
              in.is_large_launch = sharded::is_large_launch<shipped>(warps, 4);
              in.lg_shards = in.is_large_launch ? (warps > 4096 ? 4 : 2) : warps % 3;
              in.has_partial = (held & 1) != 0;
              for (bool const others : {false, true}) {
                in.others_idle = others;
                in.ended_slots = others ? gpuheap::structures::shard_word::max_slots : held;
                for (bool const uniform : {false, sharded::is_uniform(lanes, lanes)}) {
                  in.is_uniform = uniform;
                  for (bool const alone : {false, lanes == 1}) {
                    in.is_alone = alone;
                    visit(in);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

// The rules on which the protocol relies, whatever the parameters are.
template <sharded::tuning Tuning>
void expect_promises() {
  for_all_inputs([](refill_input const& in) {
    refill_plan const plan = plan_refill<Tuning>(in);
    ASSERT_GE(std::uint64_t{plan.pages} << in.page_shift, in.slot_bytes) << "no slot fits";
    ASSERT_LT(plan.pages, 1u << 24) << "a refill_result has 24 bits for it";
    ASSERT_LE(plan.segments, std::min(64u, in.max_segments));
    if (plan.takes_over != 0) {
      ASSERT_TRUE(in.others_idle);
      ASSERT_GE(std::uint64_t{plan.takes_over} << in.page_shift, in.slot_bytes) << "no slot fits";
      ASSERT_LT(plan.takes_over, 1u << 24) << "a refill_result has 24 bits for it";
    }
    if (plan.reuses) {
      ASSERT_EQ(plan.segments, 0u);
      ASSERT_TRUE(in.has_partial);
    }
  });
}
TEST(ShardedPolicy, EveryPlanKeepsItsPromises) {
  expect_promises<shipped>();
  expect_promises<eager>();
}

TEST(ShardedPolicy, ALoneThreadTakesAFewPages) {
  refill_input in = lone_warp();
  in.lanes = in.asked = 1;
  in.is_uniform = false;
  in.slot_bytes = 16;
  EXPECT_EQ(sharded::span_pages<shipped>(in), sharded::launches_per_span);
  in.free_pages = 1000;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 1u) << "little is free";
}
TEST(ShardedPolicy, ALargeLaunchTakesWhatEachShardHandsOutIfEveryWarpAsksOnce) {
  refill_input const in = large_launch();
  // A million threads of 64 bytes in 16 shards: 62,500 slots each and a 32nd more.
  EXPECT_EQ(sharded::span_pages<shipped>(in), (62501 * 64 * 33 / 32 + 65535) / 65536);
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u);
}
TEST(ShardedPolicy, ANewSpanTakesAtMostAShareOfTheFreePages) {
  refill_input in = large_launch();
  in.slot_bytes = 8192;
  in.max_segments = 64;
  in.free_pages = 8000;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 1000u);
  in.is_uniform = false;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 250u) << "several classes share";
}
TEST(ShardedPolicy, WhatThreadsWaitForIsTakenHoweverLittleIsFree) {
  refill_input in = large_launch();
  in.slot_bytes = 8192;
  in.free_pages = 40;
  in.asked = 100;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 13u);
}
TEST(ShardedPolicy, ASmallLaunchTakesEnoughForSeveralLikeIt) {
  refill_input in = lone_warp();
  in.warps = 100;
  in.slot_bytes = 4096;
  in.max_segments = 64;
  unsigned const once = (3201u * 4096 / 32 * 33 + 65535) / 65536;
  EXPECT_EQ(sharded::span_pages<shipped>(in), once * sharded::launches_per_span);
  in.held_pages = 2000;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 2000u) << "as much as the class holds";
  in.max_segments = 8;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 512u) << "the longest span";
}

TEST(ShardedPolicy, ASmallLaunchThatIsRepeatedGetsALongerSpan) {
  // 3125 warps ask for 768 bytes in four lanes on average. Three lanes plan two segments, and the launch needs a few slots more.
  refill_input in = lone_warp();
  in.slot_bytes = 768;
  in.warps = 3125;
  in.lanes = in.asked = 3;
  in.is_uniform = false;
  in.free_pages = 128 << 10;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 2u);
  in.held_pages = 128;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 2u) << "the shard had no span";
  EXPECT_FALSE(plan_refill<shipped>(in).wants_long_row) << "the shard had no span";
  in.ended_slots = 128 * 65536 / 768;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 160u);
  EXPECT_EQ(plan_refill<shipped>(in).segments, 3u);
  EXPECT_TRUE(plan_refill<shipped>(in).wants_long_row);
  in.has_partial = true;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 128u) << "the class has a partial span";
  EXPECT_FALSE(plan_refill<shipped>(in).wants_long_row) << "the class has a partial span";
  in.has_partial = false;
  in.failures = reuse_failures{}.no_partial_span(in.launch);
  EXPECT_EQ(sharded::span_pages<shipped>(in), 128u) << "a later refill of the launch";
  EXPECT_FALSE(plan_refill<shipped>(in).wants_long_row) << "a later refill of the launch";
  in.failures = {};
  in.lanes = 1;
  EXPECT_EQ(sharded::span_pages<shipped>(in), sharded::demanded_pages(in) * 4) << "four times the demand";
  in.lanes = 3;
  in.held_pages = 130;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 130u) << "the class holds another span";
  EXPECT_TRUE(plan_refill<shipped>(in).wants_long_row) << "the class holds another span, which is not partial";
  in.held_pages = 256;
  in.lg_shards = 1;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 160u) << "two shards hold as much each";
  in.lg_shards = 0;
  in.held_pages = 128;
  in.is_large_launch = true;
  EXPECT_FALSE(plan_refill<shipped>(in).wants_long_row) << "a large launch";
  in.is_large_launch = false;
  in.lanes = in.asked = 32;
  in.warps = 1000;
  in.lg_shards = 1;
  in.held_pages = 400;
  in.ended_slots = 400 * 65536 / 768;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 200u) << "nearly all lanes ask";
  EXPECT_FALSE(plan_refill<shipped>(in).wants_long_row) << "nearly all lanes ask";
}

TEST(ShardedPolicy, ALargeLaunchOfSeveralClassesGetsNoShorterSpan) {
  // 31,250 warps ask for 512 bytes in two lanes on average, and use eight shards. This warp has one such lane.
  refill_input in = large_launch();
  in.slot_bytes = 512;
  in.lg_shards = 3;
  in.lanes = in.asked = 1;
  in.is_uniform = false;
  in.free_pages = 128 << 10;
  in.held_pages = 8 * 90;
  unsigned const demanded = sharded::demanded_pages(in);
  EXPECT_EQ(demanded, 32u);
  EXPECT_EQ(sharded::span_pages<shipped>(in), demanded) << "the shard had no span";
  in.ended_slots = 80 * 65536 / 512;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 100u) << "a quarter longer in the launch's first refill";
  in.failures = reuse_failures{}.no_partial_span(in.launch);
  EXPECT_EQ(sharded::span_pages<shipped>(in), 80u) << "as long in a later one";
  in.failures = {};
  in.has_partial = true;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 80u) << "as long if the class has a partial span";
  in.ended_slots = 160 * 65536 / 512;
  EXPECT_EQ(sharded::span_pages<shipped>(in), demanded * 4) << "at most four times the demand";
  in.is_uniform = true;
  EXPECT_EQ(sharded::span_pages<shipped>(in), demanded) << "nearly all lanes that ask want this class";
}

TEST(ShardedPolicy, FewLanesThatAskForLongSlotsGetAShortSpan) {
  refill_input in = large_launch();
  in.slot_bytes = 1 << 18;
  in.max_segments = 64;
  in.is_uniform = false;
  in.lanes = in.asked = 1;
  in.free_pages = in.all_pages;
  EXPECT_GT(sharded::demanded_pages(in), 64u * 100);
  EXPECT_EQ(sharded::span_pages<shipped>(in), 64u);
  in.lanes = 2;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 4u * 64);
  in.lanes = 1;
  in.held_pages = 16 * 500;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 1000u) << "twice what a shard of the class has on average";
  in.held_pages = 0;
  in.asked = 2000;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 64u * 64) << "what threads wait for, up to the longest span";
  in = large_launch();
  in.slot_bytes = 1 << 18;
  in.max_segments = 64;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 64u * 64) << "whole warps ask";
  in.slot_bytes = 8192;
  in.is_uniform = false;
  in.lanes = 2;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 4u * 64) << "slots of 8 KiB need 8 segments";
  in.slot_bytes = 2048;
  EXPECT_EQ(sharded::span_pages<shipped>(in), sharded::demanded_pages(in)) << "slots of 2 KiB need 2 segments";
}
TEST(ShardedPolicy, FewLanesOfASmallLaunchGetNoShorterSpanTheMoreTheirClassHolds) {
  refill_input in = lone_warp();
  in.warps = 4000;
  in.lanes = in.asked = 1;
  in.is_uniform = false;
  in.lg_shards = 4;
  in.slot_bytes = 1 << 18;
  in.max_segments = 64;
  in.free_pages = 6000;
  EXPECT_EQ(sharded::demanded_pages(in), 1036u);
  unsigned before = 0;
  for (unsigned const held : {0u, 100u, 255u, 256u, 800u, 1500u, 3000u}) {
    in.held_pages = held;
    unsigned const pages = sharded::span_pages<shipped>(in);
    EXPECT_GE(pages, before) << held;
    EXPECT_LE(pages, 6000u / 32) << held << ": a 32nd of what is free";
    before = pages;
  }
  EXPECT_EQ(before, 6000u / 32);
  in.free_pages = in.all_pages;
  in.held_pages = 0;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 64u);
}
TEST(ShardedPolicy, TheSpansOfALaneThatAsksAloneGrowWithWhatItsClassHolds) {
  refill_input in = large_launch();
  in.is_uniform = false;
  in.lanes = in.asked = 1;
  in.slot_bytes = 256;
  in.warps = 8192;
  in.lg_shards = 3;
  in.max_segments = 64;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u);
  in.held_pages = 64 * 1000;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u) << "one of several lanes of its warp";
  in.is_alone = true;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 1000u) << "an eighth of what the class holds for one of 8 shards";
  EXPECT_EQ(plan_refill<shipped>(in).segments, 16u);
  in.held_pages = 64 * 30;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u) << "the class holds little";
  in.held_pages = 64 * 1000;
  in.free_pages = 3200;
  EXPECT_EQ(sharded::span_pages<shipped>(in), 100u) << "a 32nd of what is free";
}
TEST(ShardedPolicy, OnlyALaneWithoutAnyBesideItAsksAlone) {
  sharded::demand const alone = sharded::demand::of_lone_lane(59, 15, 4, 31), one = sharded::demand::of(59, 15, 0, 1, 4, 31, false);
  EXPECT_TRUE(alone.is_alone());
  EXPECT_FALSE(one.is_alone());
  EXPECT_EQ(alone.lanes(), 1u);
  EXPECT_EQ(alone.lg_alignment(), 31u);
  EXPECT_FALSE(alone.is_uniform());
  EXPECT_TRUE(alone.at(3, 2, 1).is_alone());
  sharded::demand const all = sharded::demand::of(0, 0, 0, 32, 0, 31, true);
  EXPECT_FALSE(all.is_alone());
  EXPECT_EQ(all.lg_alignment(), 31u);
}

TEST(ShardedPolicy, APartialSpanIsReusedIfTheLaunchFoundSomeAtFirst) {
  refill_input in = large_launch();
  EXPECT_FALSE(plan_refill<shipped>(in).reuses);
  EXPECT_TRUE(plan_refill<shipped>(in).finds_no_partial);
  in.has_partial = true;
  EXPECT_TRUE(plan_refill<shipped>(in).reuses);
  EXPECT_FALSE(plan_refill<shipped>(in).finds_no_partial);
  in.failures = reuse_failures{}.no_partial_span(in.launch);
  EXPECT_FALSE(plan_refill<shipped>(in).reuses) << "what is partial now is the launch's own";
  in.free_pages = in.all_pages / 17;
  EXPECT_TRUE(plan_refill<shipped>(in).reuses) << "the heap is nearly full";
}
TEST(ShardedPolicy, ASmallLaunchPrefersUnusedMemoryWhileHalfOfTheHeapIsUnused) {
  refill_input in = lone_warp();
  in.has_partial = true;
  in.free_pages = in.all_pages / 2 + 1;
  EXPECT_FALSE(plan_refill<shipped>(in).reuses);
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u) << "a segment of its own";
  in.free_pages = in.all_pages / 2;
  in.held_pages = in.free_pages / 32;
  EXPECT_TRUE(plan_refill<shipped>(in).reuses);
}
TEST(ShardedPolicy, ASmallLaunchPrefersUnusedMemoryForAClassThatHoldsLittleBesideWhatIsFree) {
  refill_input in = lone_warp();
  in.has_partial = true;
  for (unsigned const free : {32u, 3200u, in.all_pages / 2}) {
    in.free_pages = free;
    in.held_pages = free / 32 - 1;
    EXPECT_FALSE(plan_refill<shipped>(in).reuses) << free;
    in.held_pages = free / 32;
    EXPECT_TRUE(plan_refill<shipped>(in).reuses) << free;
  }
  in = large_launch();
  in.has_partial = true;
  EXPECT_TRUE(plan_refill<shipped>(in).reuses) << "its spans are made for one launch";
}
TEST(ShardedPolicy, WithoutAWholeSegmentTheSlowPathIsTaken) {
  refill_input in = large_launch();
  in.free_pages = 63;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 0u);
  EXPECT_TRUE(plan_refill<shipped>(in).memory_is_low);
  in.free_pages = 64;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 1u);
}

TEST(ShardedPolicy, IdleSpansAreTakenOverWhileLittleIsFreeAndAShareOfItIsTooShort) {
  refill_input in = lone_warp();
  // 3125 warps of 4 KiB in 16 shards: 6.3 segments for each.
  in.warps = 3125;
  in.lg_shards = 4;
  in.slot_bytes = 4096;
  in.max_segments = 64;
  in.others_idle = true;
  unsigned const demand = (6251u * 4096 / 32 * 33 + 65535) / 65536;
  EXPECT_EQ(sharded::demanded_pages(in), demand);
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, 0u) << "half of the heap is free";
  in.free_pages = in.all_pages / 4 - 1;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, demand) << "if there is no long row";
  EXPECT_EQ(plan_refill<shipped>(in).segments, 7u);
  in.free_pages = 64 * 100;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, demand) << "a 32nd of the free pages is too little";
  EXPECT_EQ(plan_refill<shipped>(in).segments, 0u) << "so no row is looked for";
  in.free_pages = 0;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, demand);
  in.others_idle = false;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, 0u);
  in.others_idle = true;
  EXPECT_EQ((plan_refill<sharded::tuning{.take_over_divisor = 0}>(in).takes_over), 0u);
  in.is_uniform = false;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, 0u) << "the launch needs the other classes' spans itself";
  in = lone_warp();
  in.others_idle = true;
  in.free_pages = 1000;
  EXPECT_EQ(plan_refill<shipped>(in).takes_over, 0u) << "the pages that a lone warp needs are free";
}
TEST(ShardedPolicy, TheBestIdleSpanIsTheOneThatIsJustLongEnough) {
  unsigned worth = 128;
  for (unsigned const there : {100u, 120u, 200u, 800u, 99u, 70u, 50u}) {
    EXPECT_LT(sharded::worth_of_idle(there, 100), worth) << there;
    worth = sharded::worth_of_idle(there, 100);
    EXPECT_GE(worth, 1u) << there;
  }
  EXPECT_EQ(sharded::worth_of_idle(49, 100), 0u) << "less than half of it";
  for (unsigned pages = 1; pages < 5000; pages += pages < 100 ? 1 : 97) {
    for (unsigned there = 1; there < 5000; there += there < 100 ? 1 : 89) {
      EXPECT_LE(sharded::worth_of_idle(there, pages), 127u);
      EXPECT_EQ(sharded::worth_of_idle(there, pages) != 0, there * 2 >= pages) << there << " for " << pages;
    }
  }
}

TEST(ShardedPolicy, TheBestPartialSpanIsTheOneWithTheMostFreeSlots) {
  // A long span of which a fifth is free is worth more than a short one that is nearly free.
  EXPECT_GT(sharded::worth_of_partial(50, 252, 8192), sharded::worth_of_partial(240, 252, 1024));
  // Of two spans of one length, the one with more free slots is worth more if it has a quarter more of them.
  for (unsigned slots = 64; slots <= 1u << 15; slots *= 2) {
    unsigned last = 0;
    for (unsigned free = 1; free <= 252; free = free * 5 / 4 + 1) {
      unsigned const worth = sharded::worth_of_partial(free, 252, slots);
      EXPECT_TRUE(worth >= 1 && worth <= 64);
      EXPECT_GE(worth, last) << free << " of " << slots;
      if (free * slots / 252 >= 8 && worth < 64) {
        EXPECT_GT(worth, last) << free << " of " << slots;
      }
      last = worth;
    }
  }
  EXPECT_EQ(sharded::worth_of_partial(1, 252, 1), 1u) << "less than one slot";
  EXPECT_EQ(sharded::worth_of_partial(252, 252, 1u << 19), 64u);
}

TEST(ShardedPolicy, ReuseFailuresPauseLongerEachTimeThatAnotherLaunchFails) {
  reuse_failures f{};
  EXPECT_EQ(f.count(), 0u);
  unsigned launch = 40;
  for (unsigned const pause : {1u, 2u, 4u, 8u, 16u, 16u}) {
    EXPECT_FALSE(f.count() == reuse_failures::enough && f.in(launch));
    for (unsigned const expected : {1u, 2u, 3u, 3u}) {
      f = f.one_more(launch);
      EXPECT_EQ(f.count(), expected);
    }
    for (unsigned i = 0; i < pause; ++i) EXPECT_TRUE(f.in(launch + i)) << pause;
    EXPECT_FALSE(f.in(launch + pause));
    EXPECT_TRUE(f.in(launch - 16)) << "a launch beside this one";
    EXPECT_FALSE(f.in(launch - 17));
    launch += pause;
  }
  EXPECT_EQ(reuse_failures{}.no_partial_span(9).count(), reuse_failures::enough);
  EXPECT_FALSE(reuse_failures{}.no_partial_span(9).in(10));
  EXPECT_EQ(f.no_partial_span(launch).lg_pause(), f.lg_pause()) << "what others found out stays known";
}
// The number of a launch has fewer bits in the record.
TEST(ShardedPolicy, ReuseFailuresOfALaunchWhoseNumberOverflows) {
  unsigned const last = ~0u >> reuse_failures::launch_at;
  reuse_failures const f = reuse_failures{}.no_partial_span(last);
  EXPECT_TRUE(f.in(last));
  EXPECT_TRUE(f.in(2 * last + 1));
  EXPECT_FALSE(f.in(last + 1));
}
TEST(ShardedPolicy, APartialSpanIsWorthItsReuseFromAFifthOn) {
  EXPECT_FALSE(sharded::is_worth_reuse<shipped>(0, 252, true));
  EXPECT_FALSE(sharded::is_worth_reuse<shipped>(50, 252, false));
  EXPECT_TRUE(sharded::is_worth_reuse<shipped>(51, 252, false));
  EXPECT_TRUE(sharded::is_worth_reuse<shipped>(7, 252, true));
  EXPECT_FALSE(sharded::is_worth_reuse<shipped>(6, 252, true));
  for (unsigned free = 1; free <= 252; ++free) {
    unsigned const claims = sharded::claims_for_each_word(free, 252, 4032, 63);
    EXPECT_TRUE(claims >= 1 && claims <= 63);
    EXPECT_EQ(claims, std::max(1u, free / 4));
  }
}

TEST(ShardedPolicy, SeveralShardsOfASmallLaunchGetWholeSegmentsForOneLaunch) {
  refill_input in = lone_warp();
  // 1024 warps of 4 KiB in 8 shards: 64 MiB each, and a 32nd more, in a heap of which a quarter is held.
  in.warps = 4000;
  in.lg_shards = 3;
  in.slot_bytes = 4096;
  in.max_segments = 64;
  in.free_pages = 98304;
  EXPECT_EQ(sharded::span_pages<shipped>(in), (16001u * 4096 / 32 * 33 + 65535) / 65536);
  EXPECT_EQ(plan_refill<shipped>(in).segments, 17u) << "16.1 segments are not rounded down";
  in.is_large_launch = true;
  EXPECT_EQ(plan_refill<shipped>(in).segments, 16u);
}

TEST(ShardedPolicy, ALaunchUsesAsManyShardsAsItsWarpsKeepBusy) {
  sharded::layout at{};
  at.page_shift = 16;
  at.lg_shards = 4;
  // 64 KiB in each lane: memory limits none of these. One shard, or 4 and more, but not 2.
  unsigned const c = classes::class_of(65536);
  std::vector<unsigned> found;
  for (unsigned const warps : {1u, 127u, 128u, 256u, 512u, 4096u, 1u << 20})
    found.push_back(sharded::lg_shards_of_group<shipped>(warps, at, c, 32, 32));
  EXPECT_EQ(found, (std::vector<unsigned>{0, 0, 2, 3, 4, 4, 4}));
  at.lg_shards = 1;
  EXPECT_EQ(sharded::lg_shards_of_group<shipped>(1u << 20, at, c, 32, 32), 1u) << "a small heap has few";
  EXPECT_FALSE(sharded::is_large_launch<shipped>(1u << 20, 1));
  EXPECT_FALSE(sharded::is_large_launch<shipped>(4095, 4));
  EXPECT_TRUE(sharded::is_large_launch<shipped>(4096, 4));
}
TEST(ShardedPolicy, SmallLaunchesOfSeveralClassesBorrow) {
  EXPECT_TRUE(sharded::borrows<shipped>(512, 4, false));
  EXPECT_TRUE(sharded::borrows<shipped>(1u << 20, 1, false));  // a heap with few shards has no large launches
  EXPECT_FALSE(sharded::borrows<shipped>(4096, 4, false));
  EXPECT_FALSE(sharded::borrows<shipped>(512, 4, true));
  EXPECT_FALSE((sharded::borrows<sharded::tuning{.borrows = false}>(512, 4, false)));
}
TEST(ShardedPolicy, ABorrowedSlotIsAtMostHalfAsLargeAgain) {
  EXPECT_FALSE(sharded::is_near(classes::class_of(16), classes::class_of(32)));
  EXPECT_TRUE(sharded::is_near(classes::class_of(32), classes::class_of(48)));
  EXPECT_TRUE(sharded::is_near(classes::class_of(1024), classes::class_of(1536)));
  EXPECT_FALSE(sharded::is_near(classes::class_of(1024), classes::class_of(1792)));
}
TEST(ShardedPolicy, EachShardOfASmallLaunchHandsOutSeveralSegments) {
  sharded::layout at{};
  at.page_shift = 16;
  at.lg_shards = 4;
  // 100,000 threads in a heap of 8 GiB: 1.6, 25.6, 102 and 410 MB, in segments of 4 MiB.
  std::vector<unsigned> found;
  for (unsigned const bytes : {16u, 256u, 1024u, 4096u})
    found.push_back(sharded::lg_shards_of_group<shipped>(3125, at, classes::class_of(bytes), 32, 32));
  EXPECT_EQ(found, (std::vector<unsigned>{0, 0, 2, 4}));
}
TEST(ShardedPolicy, AFewLanesUseFewShards) {
  sharded::layout at{};
  at.page_shift = 16;
  at.lg_shards = 4;
  unsigned const small = classes::class_of(128), large = classes::class_of(1024), largest = classes::class_of(2048);
  auto const of = [&](unsigned c, unsigned lanes, unsigned group) {
    return sharded::lg_shards_of_group<shipped>(1u << 20, at, c, lanes, group);
  };
  EXPECT_EQ(of(large, 32, 32), 4u);
  EXPECT_EQ(of(large, 32, 16), 3u);
  EXPECT_EQ(of(small, 32, 4), 2u);
  EXPECT_EQ(of(large, 32, 4), 3u);
  EXPECT_EQ(of(largest, 32, 4), 4u);
  EXPECT_EQ(sharded::lg_shards_of_group<shipped>(31250, at, 0, 32, 32), 2u) << "16 MB need four segments";
}

}  // namespace
}  // namespace sharded_test
