// The segment map under contention: no segment has two owners, every one comes back, and none is refused while one is left.
#include "segment_map_checks.hpp"

namespace structures_test {

// Kernel: threads claim blocks and spans of all kinds, hold one claim at a time and release them all.
struct claim_and_release {
  segment_map map;
  transit_count moves;
  owned_cells cells;  // by segment
  unsigned rounds;
  unsigned* misplaced;
  unsigned* served;

  struct span {
    unsigned first = segment_map::none, n = 0;
  };

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    span held{};
    for (unsigned round = 0; round < rounds; ++round) {
      span const got = random.below(2) == 0 ? claim_a_block(random) : claim_a_span(random);
      if (got.first == segment_map::none) continue;
      if (got.first + got.n > map.num_segments) count(misplaced);
      for (unsigned k = 0; k < got.n; ++k) cells.claim(got.first + k, i);
      count(served);
      release(held, i);
      held = got;
    }
    release(held, i);
  }
  GPUHEAP_FN span claim_a_block(test::rng& random) const {
    unsigned const order = random.below(segment_map::max_order + 1), spread = random.below(1u << 16);
    moves.begin();
    segment_map::claim const got = map.claim_block(order, spread);
    moves.end();
    if (got.first == segment_map::none) return {};
    if (got.order > order || got.first % (1u << got.order) != 0) count(misplaced);
    return {got.first, 1u << got.order};
  }
  GPUHEAP_FN span claim_a_span(test::rng& random) const {
    unsigned const lot = random.below(16);
    unsigned const n = lot == 0 ? map.num_segments : 1 + random.below(lot < 4 ? 150 : 20);
    unsigned const alignment = lot == 0 ? 1 : 1u << random.below(6), phase = random.below(alignment);
    unsigned const first = map.claim_span(n, alignment, phase, moves);
    if (first != segment_map::none && (first + phase) % alignment != 0) count(misplaced);
    return {first, n};
  }
  GPUHEAP_FN void release(span held, unsigned i) const {
    if (held.first == segment_map::none) return;
    for (unsigned k = 0; k < held.n; ++k) cells.release(held.first + k, i);
    map.release_span(held.first, held.n);
  }
};

// Kernel: threads claim until they are certain that nothing is left, which half of the searches learn from the spans, half from the blocks.
struct claim_until_refused {
  segment_map map;
  transit_count moves;
  owned_cells cells;  // by segment
  unsigned* miscounted;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    simt::back_off pause;
    // Ends: a pass claims a segment, or saw another thread's move, or is certain. A search that finds nothing is no move.
    for (;;) {
      transit_count::word const seen = moves.look();
      segment_map::claim const got = random.below(2) == 0 ? claim_a_segment() : claim_a_block(random);
      if (got.first != segment_map::none) {
        for (unsigned k = 0; k < 1u << got.order; ++k) cells.claim(got.first + k, i);
      } else if (transit_count::quiet(seen) && moves.look() == seen) {
        if (map.free_hint() != 0) count(miscounted);
        return;
      } else {
        pause.wait();
      }
    }
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim_a_segment() const { return {map.claim_span(1, 1, 0, moves), 0}; }
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim_a_block(test::rng& random) const {
    unsigned const order = random.below(segment_map::max_order + 1), spread = random.below(1u << 16);
    if (!map.tree.maybe_any()) return {};
    moves.begin();
    segment_map::claim const got = map.claim_block(order, spread);
    moves.end();
    return got;
  }
};

namespace {

std::string segments_change_hands(unsigned threads, unsigned num_segments, unsigned rounds, unsigned stride = 1) {
  map_memory map(num_segments, stride);
  cell_memory cells(num_segments);
  test::device_array<unsigned> misplaced(1), served(1);
  gpuheap::launch(threads, claim_and_release{map.view(), map.moves(), cells.view(), rounds, misplaced.data(), served.data()},
                  {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, misplaced.first() == 0, "a claim was not aligned, larger than asked, or beyond the map");
  require(problems, served.first() != 0, "no claim was served");
  require(problems, map.num_free() == num_segments, std::to_string(num_segments - map.num_free()) + " segments did not come back");
  require(problems, map.least_free() < num_segments, "the lowest number of free segments was not noted");
  return problems;
}

std::string nothing_is_left(unsigned threads, unsigned num_segments) {
  map_memory map(num_segments);
  cell_memory cells(num_segments);
  test::device_array<unsigned> miscounted(1);
  gpuheap::launch(threads, claim_until_refused{map.view(), map.moves(), cells.view(), miscounted.data()}, {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, miscounted.first() == 0, "a thread was certain that nothing is left, and the count was not 0");
  auto const owners = cells.owners();
  for (unsigned s = 0; s < num_segments; ++s) {
    require(problems, owners[s] != 0, "segment " + std::to_string(s) + " was refused to all");
  }
  require(problems, map.num_free() == 0 && map.least_free() == 0, "the counts are not 0 when all is claimed");
  return problems;
}

TEST(SegmentMapContention, NoSegmentHasTwoOwnersAndAllComeBack) {
  EXPECT_EQ(segments_change_hands(many_threads / 4, 200, 6), "");
  EXPECT_EQ(segments_change_hands(many_threads / 4, 4485, 6, 16), "");
}
TEST(SegmentMapContention, NoSegmentHasTwoOwnersAndAllComeBackUnderManySchedules) {
  expect_passes(1000, [] { return segments_change_hands(explored_threads, 200, 4); });
  expect_passes(1000, [] { return segments_change_hands(explored_threads, 70, 4, 2); });
}
TEST(SegmentMapContention, NothingIsLeftWhenAllAreRefused) {
  EXPECT_EQ(nothing_is_left(many_threads / 4, 4485), "");
  EXPECT_EQ(nothing_is_left(many_threads / 4, 70), "");
}
TEST(SegmentMapContention, NothingIsLeftWhenAllAreRefusedUnderManySchedules) {
  expect_passes(800, [] { return nothing_is_left(explored_threads, 150); });
}

TEST(SegmentMapContention, NobodyIsRefusedWhileASegmentIsFree) {
  EXPECT_EQ(refusals_are_right(many_threads / 4, 20), "");
  expect_passes(1500, [] { return refusals_are_right(12, 8); });
}

}  // namespace
}  // namespace structures_test
