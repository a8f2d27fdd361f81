// The packed words of a run: what goes in comes out, no field reaches into its neighbour, and a draw's duty.
#include "../support/rng.hpp"

#include <gpuheap/structures/run_words.hpp>
#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/slot_map.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace structures_test {
namespace {

using gpuheap::structures::run_header;
using gpuheap::structures::run_tag;
using gpuheap::structures::shard_word;
using gpuheap::structures::slot_map;
namespace classes = gpuheap::structures::size_classes;

constexpr unsigned max_length = run_header::max_length;
constexpr unsigned generations = 1u << 16;

// ---- run_header

TEST(RunHeader, ARunOfSlotsKeepsItsClassLengthAndGeneration) {
  test::rng random{1};
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned length = 1; length <= max_length; ++length) {
      bool const of_segments = random.below(2) != 0;
      for (unsigned generation : {0u, 1u, generations - 1, random.below(generations)}) {
        run_header const h = run_header::fresh_slots(c, length, of_segments, generation);
        ASSERT_EQ(h.size_class(), c);
        ASSERT_EQ(h.length(), length);
        ASSERT_EQ(h.of_segments(), of_segments);
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
  for (unsigned pages : {1u, 2u, 65u, shard_word::max_pages, 0xffffffffu}) {
    for (unsigned generation : {0u, 1u, generations - 1}) {
      run_header const h = run_header::fresh_large(pages, generation);
      EXPECT_EQ(h.large_pages(), pages);
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
  EXPECT_EQ(run_header::fresh_slots(59, 64, true, generations).bits, run_header::fresh_slots(59, 64, true, 0).bits);
  EXPECT_EQ(run_header::fresh_large(7, generations + 3).bits, run_header::fresh_large(7, 3).bits);
}

// One addition makes a run of unused memory, whatever its generation was.
TEST(RunHeader, AnAdditionMakesUnusedMemoryTheNextRun) {
  test::rng random{4};
  for (unsigned i = 0; i < 5000; ++i) {
    unsigned const c = random.below(classes::count), length = 1 + random.below(max_length);
    bool const of_segments = random.below(2) != 0;
    unsigned const last = i == 0 ? generations - 1 : random.below(generations);
    run_header const h{run_header::unused(last).bits + run_header::to_fresh_slots(c, length, of_segments)};
    ASSERT_EQ(h.bits, run_header::fresh_slots(c, length, of_segments, (last + 1) % generations).bits);
  }
}

TEST(RunHeader, UnitsAreSubtractedFromTheLengthAlone) {
  for (unsigned length = 1; length <= max_length; ++length) {
    for (unsigned kept = 1; kept <= length; ++kept) {
      run_header const h{run_header::fresh_slots(9, length, true, 77).bits - (length - kept) * run_header::length_one};
      ASSERT_EQ(h.bits, run_header::fresh_slots(9, kept, true, 77).bits);
    }
  }
}

// Counts of groups and slots are added and subtracted by different threads, each in its own order.
TEST(RunHeader, CountsDoNotReachIntoEachOther) {
  run_header const fresh = run_header::fresh_slots(42, 3, false, 12345);
  for (int groups : {-1024, -1, 0, 1, 66, 1023}) {
    for (unsigned accounted : {0u, 1u, 32u, shard_word::max_slots, (1u << 20) - 1}) {
      run_header h = fresh;
      h.bits += accounted * run_header::accounted_one;
      h.bits += static_cast<run_header::word>(static_cast<std::int64_t>(groups)) * run_header::full_one;
      ASSERT_EQ(static_cast<int>(h.full_groups()), groups);
      ASSERT_FALSE(h.was_missed());
      ASSERT_EQ(h.accounted(), accounted);
      ASSERT_TRUE(h.is_bound());
      ASSERT_TRUE(h.serves(42));
      ASSERT_EQ(h.length(), 3u);
      ASSERT_FALSE(h.of_segments());
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

TEST(RunHeader, BoundAgainItIsAsBeforeAndNotMissed) {
  run_header const bound{run_header::fresh_slots(42, 3, true, 12345).bits + 7 * run_header::full_one};
  run_header const unbound{bound.bits - run_header::bound}, missed{unbound.bits | run_header::missed};
  EXPECT_FALSE(unbound.is_bound());
  EXPECT_FALSE(unbound.was_missed());
  EXPECT_TRUE(missed.was_missed());
  EXPECT_EQ(missed.full_groups(), 7u);
  EXPECT_EQ(unbound.bound_again().bits, bound.bits);
  EXPECT_EQ(missed.bound_again().bits, bound.bits);
}

// ---- shard_word

TEST(ShardWord, ARunKeepsItsPageAndSlots) {
  test::rng random{2};
  for (unsigned i = 0; i < 20000; ++i) {
    unsigned const page = i == 0 ? shard_word::max_pages - 1 : random.below(shard_word::max_pages);
    unsigned const slots = i == 0 ? shard_word::max_slots : 1 + random.below(shard_word::max_slots);
    shard_word w = shard_word::of_run(page, slots);
    ASSERT_EQ(w.next(), 0u);
    // Draws, up to what the field holds.
    w.bits += i % 2 == 0 ? random.below(1u << 21) : (1u << 21) - 1;
    ASSERT_EQ(w.page(), page);
    ASSERT_EQ(w.num_slots(), slots);
    ASSERT_EQ(w.num_draws(), slots);
    ASSERT_FALSE(w.is_sweep());
    ASSERT_TRUE(w.has_run());
    ASSERT_FALSE(w.is_idle());
    ASSERT_EQ(w.has_room(), w.next() < slots);
    ASSERT_EQ(w.excess(), w.next() < slots ? 0 : w.next() - slots);
  }
}

TEST(ShardWord, ASweepKeepsItsPageWordsAndDrawsPerWord) {
  test::rng random{5};
  for (unsigned i = 0; i < 20000; ++i) {
    unsigned const page = i == 0 ? shard_word::max_pages - 1 : random.below(shard_word::max_pages);
    unsigned const words = i == 0 ? slot_map::words_for(shard_word::max_slots) : 1 + random.below((1u << 14) - 1);
    unsigned const per_word = i == 0 ? slot_map::slots_per_word : 1 + random.below(slot_map::slots_per_word);
    shard_word w = shard_word::of_sweep(page, words, per_word);
    ASSERT_EQ(w.next(), 0u);
    ASSERT_TRUE(w.has_room());
    w.bits += i % 2 == 0 ? random.below(1u << 21) : (1u << 21) - 1;
    ASSERT_EQ(w.page(), page);
    ASSERT_EQ(w.sweep_words(), words);
    ASSERT_EQ(w.draws_per_word(), per_word);
    ASSERT_EQ(w.num_draws(), words * per_word);
    ASSERT_TRUE(w.is_sweep());
    ASSERT_TRUE(w.has_run());
    ASSERT_FALSE(w.is_idle());
    ASSERT_EQ(w.has_room(), w.next() < words * per_word);
    ASSERT_EQ(w.excess(), w.next() < words * per_word ? 0 : w.next() - words * per_word);
  }
}

// What is drawn of a sweep is accounted in the header's field, and a sweep of the longest run must fit there.
TEST(ShardWord, TheDrawsOfTheLongestSweepFitTheHeader) {
  unsigned const words = slot_map::words_for(shard_word::max_slots);
  EXPECT_LT(words, 1u << 14);
  EXPECT_LE(words * slot_map::slots_per_word, run_header::accounted_mask);
}

// A run of so many draws, fresh or to be swept; the sweeps' words have 1 draw, then 2, and so on, where that divides.
std::vector<shard_word> runs_of(unsigned page, unsigned num_draws) {
  if (num_draws == 0) return {shard_word{}};
  std::vector<shard_word> all{shard_word::of_run(page, num_draws)};
  for (unsigned per_word = 1; per_word <= slot_map::slots_per_word; ++per_word) {
    if (num_draws % per_word == 0) all.push_back(shard_word::of_sweep(page, num_draws / per_word, per_word));
  }
  return all;
}

TEST(ShardWord, DutyGoesToTheDrawThatFindsItIdleOrReachesTheEnd) {
  struct {
    char const* what;
    unsigned num_draws, next, drawn;
    bool duty;
    unsigned excess;  // before the draw
  } const table[] = {
      {"idle, one lane", 0, 0, 1, true, 0},
      {"idle, a warp", 0, 0, 32, true, 0},
      {"no run, somebody fetches one", 0, 1, 1, false, 1},
      {"no run, many wait", 0, 5000, 32, false, 5000},
      {"one slot, drawn", 1, 0, 1, true, 0},
      {"one slot, overdrawn", 1, 0, 32, true, 0},
      {"room for more", 100, 0, 32, false, 0},
      {"all but one", 100, 0, 99, false, 0},
      {"exactly all", 100, 0, 100, true, 0},
      {"up to the last but one", 100, 67, 32, false, 0},
      {"up to the last", 100, 68, 32, true, 0},
      {"beyond the last", 100, 99, 32, true, 0},
      {"past the end by nothing", 100, 100, 1, false, 0},
      {"past the end", 100, 131, 32, false, 31},
  };
  for (auto const& row : table) {
    for (shard_word w : runs_of(17, row.num_draws)) {
      w.bits += row.next;
      EXPECT_EQ(w.duty_of(row.drawn), row.duty) << row.what;
      EXPECT_EQ(w.excess(), row.excess) << row.what;
    }
  }
}

TEST(ShardWord, OneDrawOfARunHasTheDutyWhateverTheSizes) {
  test::rng random{3};
  for (unsigned i = 0; i < 3000; ++i) {
    unsigned const draws = i % 7 == 0 ? 0 : 1 + random.below(200);
    auto const all = runs_of(random.below(shard_word::max_pages), draws);
    shard_word w = all[random.below(static_cast<unsigned>(all.size()))];
    unsigned duties = 0;
    for (unsigned drawn = 0; drawn < draws + 100;) {
      unsigned const n = 1 + random.below(32);
      duties += w.duty_of(n);
      w.bits += n;
      drawn += n;
    }
    ASSERT_EQ(duties, 1u) << draws << " draws";
  }
}

// The draws of a sweep that are there for each word, in order.
TEST(ShardWord, EveryWordOfASweepIsDrawnEquallyOften) {
  for (unsigned per_word : {1u, 7u, 63u}) {
    shard_word w = shard_word::of_sweep(17, 10, per_word);
    std::vector<unsigned> drawn(10);
    // Ends: every draw brings the end closer.
    for (; w.has_room(); ++w.bits) ++drawn[w.next() / w.draws_per_word()];
    EXPECT_EQ(drawn, std::vector<unsigned>(10, per_word));
  }
}

// The short way: all lanes have their slots, and nobody has anything else to do.
TEST(ShardWord, ServesADrawOfAFreshRunThatHasMore) {
  for (unsigned next : {0u, 1u, 67u, 68u, 99u, 100u, 131u}) {
    for (unsigned n : {1u, 2u, 31u, 32u}) {
      for (shard_word w : runs_of(17, 100)) {
        w.bits += next;
        EXPECT_EQ(w.serves(n), !w.is_sweep() && next + n < 100) << next << " drawn, then " << n;
        EXPECT_FALSE(w.serves(n) && w.duty_of(n));
      }
      EXPECT_FALSE(shard_word{next}.serves(n)) << "no run";
    }
  }
}

// Who finds it far draws no more. What all threads of a device may add until they find it so does not reach the next field.
TEST(ShardWord, IsFarLongBeforeTheFieldIsFull) {
  for (shard_word w : {shard_word{}, shard_word::of_run(17, shard_word::max_slots), shard_word::of_sweep(17, 4162, 63)}) {
    EXPECT_FALSE(w.is_far());
    EXPECT_FALSE(shard_word{w.bits + w.num_draws()}.is_far()) << "all drawn, and nobody waits";
    EXPECT_FALSE(shard_word{w.bits + shard_word::far - 1}.is_far());
    EXPECT_TRUE(shard_word{w.bits + shard_word::far}.is_far());
    shard_word const last{w.bits + (1u << shard_word::page_at) - 1};
    EXPECT_TRUE(last.is_far());
    EXPECT_EQ(last.page(), w.page());
  }
  constexpr unsigned most_threads = 256 * 2048;
  static_assert(shard_word::far > shard_word::max_slots && shard_word::far + most_threads < 1u << shard_word::page_at);
}

// A free asks the shard's word whether its slot was ever handed out.
TEST(ShardWord, KeepsBackTheSlotsOfItsFreshRunThatNobodyHasDrawn) {
  shard_word fresh = shard_word::of_run(17, 100), sweep = shard_word::of_sweep(17, 2, 50);
  for (unsigned drawn = 0; drawn <= 140; drawn += 20, fresh.bits += 20, sweep.bits += 20) {
    for (unsigned slot : {0u, 1u, 19u, 20u, 59u, 60u, 99u, 100u, 1000u}) {
      EXPECT_EQ(fresh.keeps_back(17, slot), slot >= drawn && slot < 100) << drawn << " drawn, slot " << slot;
      EXPECT_FALSE(fresh.keeps_back(16, slot)) << "another run";
      EXPECT_FALSE(sweep.keeps_back(17, slot)) << "all were handed out before";
    }
  }
  for (unsigned drawn : {0u, 7u}) EXPECT_FALSE(shard_word{drawn}.keeps_back(0, drawn)) << "no run";
}

// ---- run_tag

TEST(RunTag, ATagOfSlotsKeepsItsFieldsForEveryUnit) {
  for (unsigned c = 0; c < classes::count; ++c) {
    for (unsigned length = 1; length <= max_length; ++length) {
      unsigned const shard = (c + length) % 16;
      for (bool fresh : {false, true}) {
        run_tag tag = run_tag::of_slots(c, length, shard, fresh);
        for (unsigned i = 0; i < length; ++i, tag.bits += run_tag::one_further) {
          ASSERT_TRUE(tag.is_slotted());
          ASSERT_EQ(tag.size_class(), c);
          ASSERT_EQ(tag.length(), length);
          ASSERT_EQ(tag.distance(), i);
          ASSERT_EQ(tag.shard(), shard);
          ASSERT_EQ(tag.maybe_fresh(), fresh);
          ASSERT_EQ(tag.odd_factor() << tag.shift(), classes::slot_bytes(c));
          ASSERT_NE(tag.bits, run_tag::large_head);
        }
      }
    }
  }
}

TEST(RunTag, OtherMemoryIsNotSlotted) {
  EXPECT_FALSE(run_tag{}.is_slotted());
  EXPECT_FALSE(run_tag{run_tag::large_head}.is_slotted());
}

}  // namespace
}  // namespace structures_test
