// The segment map under contention: no page has two owners, every one comes back, segments become whole again, and nobody is refused while
// something is left.
#include "segment_map_checks.hpp"

namespace structures_test {

// Any claim, as an allocator makes it: with its relocation, and finished.
struct any_claim {
  segment_map map;
  relocation_count relocations;

  [[nodiscard]] GPUHEAP_FN segment_map::claim segments(unsigned pages, unsigned spread) const {
    lazy_relocation relocation{relocations};
    return finished(map.claim_segments(pages, 64, spread, relocation), relocation);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim pages(unsigned n, unsigned least, unsigned looks, unsigned spread) const {
    lazy_relocation relocation{relocations};
    return finished(map.claim_pages(n, least, looks, spread, relocation), relocation);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim broken(unsigned n, unsigned spread) const {
    lazy_relocation relocation{relocations};
    return finished(map.break_segment(n, spread, relocation), relocation);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim span(unsigned n, unsigned alignment, unsigned phase) const {
    return claim_of(claim_span(map, n, alignment, phase, relocations), n);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim finished(segment_map::claim got, lazy_relocation& relocation) const {
    if (got.first != segment_map::none) map.note_free(map.finish_claim(got));
    relocation.end();
    return got;
  }
};

// Kernel: threads claim segments, pages and spans of all kinds, hold one claim at a time and release them all, pages in two parts.
struct claim_and_release {
  any_claim claims;
  owned_cells cells;  // by page
  unsigned rounds;
  unsigned* misplaced;
  unsigned* served;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    segment_map::claim held{};
    for (unsigned round = 0; round < rounds; ++round) {
      segment_map::claim const got = claim(random);
      if (got.first == segment_map::none) continue;
      page_range const all = pages_of(claims.map, got);
      if (all.first + all.length > claims.map.num_segments << claims.map.lg_pages) count(misplaced);
      for (unsigned k = 0; k < all.length; ++k) cells.claim(all.first + k, i);
      count(served);
      release(held, random, i);
      held = got;
    }
    release(held, random, i);
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim(test::rng& random) const {
    segment_map const& map = claims.map;
    unsigned const per_segment = map.pages_per_segment(), spread = random.below(2) == 0 ? 0 : random.below(1u << 16);
    unsigned const way = random.below(8), n = 1 + random.below(per_segment);
    segment_map::claim got{};
    unsigned most = n;
    if (way < 2) {
      most = 1 + random.below(10 * per_segment);
      got = claims.segments(most, spread);
      most += most / 8;
    } else if (way < 4) {
      unsigned const least = 1 + random.below(n);
      got = claims.pages(n, least, random.below(4) == 0 ? ~0u : 3, spread);
      if (got.first != segment_map::none && got.length < least) count(misplaced);
    } else if (way < 6) {
      got = claims.broken(n, spread);
    } else {
      return claim_a_span(random);
    }
    page_range const all = pages_of(map, got);
    if (all.length > most) count(misplaced);
    if (!all.empty() && !got.of_segments && (all.first ^ (all.first + all.length - 1)) >> map.lg_pages != 0) count(misplaced);
    return got;
  }
  GPUHEAP_FN segment_map::claim claim_a_span(test::rng& random) const {
    unsigned const lot = random.below(16);
    unsigned const n = lot == 0 ? claims.map.num_segments : 1 + random.below(lot < 4 ? 150 : 20);
    unsigned const alignment = lot == 0 ? 1 : 1u << random.below(6), phase = random.below(alignment);
    segment_map::claim const got = claims.span(n, alignment, phase);
    if (got.first != segment_map::none && (got.first + phase) % alignment != 0) count(misplaced);
    return got;
  }
  GPUHEAP_FN void release(segment_map::claim held, test::rng& random, unsigned i) const {
    page_range const all = pages_of(claims.map, held);
    for (unsigned k = 0; k < all.length; ++k) cells.release(all.first + k, i);
    if (held.first != segment_map::none && !held.of_segments && held.length > 1) {
      unsigned const n = 1 + random.below(held.length - 1);
      claims.map.release_pages(held.first + n, held.length - n, claims.relocations);
      held.length = n;
    }
    release_claim(claims.map, held, claims.relocations);
  }
};

// Kernel: threads claim extents of pages, hold a few at a time and release them all.
struct claim_extents {
  any_claim claims;
  owned_cells cells;  // by page
  unsigned rounds;
  unsigned* misplaced;
  unsigned* served;
  unsigned most;  // pages of the longest extents

  struct extent {
    unsigned first, n;
  };
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    extent held[2]{};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const n = 1 + random.below(random.below(4) == 0 ? most : 40), alignment = 1u << random.below(4);
      unsigned const first = claims.map.claim_extent(n, alignment, 0, claims.relocations);
      if (first == segment_map::none) continue;
      if (first % alignment != 0 || first + n > claims.map.num_segments << claims.map.lg_pages) count(misplaced);
      for (unsigned k = 0; k < n; ++k) cells.claim(first + k, i);
      count(served);
      release(held[round % 2], i);
      held[round % 2] = {first, n};
    }
    release(held[0], i);
    release(held[1], i);
  }
  GPUHEAP_FN void release(extent held, unsigned i) const {
    for (unsigned k = 0; k < held.n; ++k) cells.release(held.first + k, i);
    if (held.n != 0) claims.map.release_pages(held.first, held.n, claims.relocations);
  }
};

// Kernel: threads claim until they are certain that nothing is left, which they learn from all kinds of claims.
struct claim_until_refused {
  any_claim claims;
  owned_cells cells;  // by page
  unsigned* miscounted;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    simt::back_off pause;
    // Ends: a pass claims something, or saw another thread's move, or is certain. A search that finds nothing
    // relocates only to clear a stale summary bit, and each such bit is cleared once.
    for (;;) {
      relocation_count::word const seen = claims.relocations.read_begin();
      page_range const got = pages_of(claims.map, claim(random));
      for (unsigned k = 0; k < got.length; ++k) cells.claim(got.first + k, i);
      if (!got.empty()) continue;
      if (claims.relocations.read_end() == seen && relocation_count::quiet(seen)) {
        if (claims.map.free_hint() != 0) count(miscounted);
        return;
      }
      pause.wait();
    }
  }
  [[nodiscard]] GPUHEAP_FN segment_map::claim claim(test::rng& random) const {
    unsigned const n = 1 + random.below(claims.map.pages_per_segment()), spread = random.below(1u << 16);
    segment_map::claim got{};
    if (random.below(4) == 0) got = claims.segments(n << 2, spread);
    if (got.first == segment_map::none && random.below(2) == 0) got = claims.pages(n, n, 3, spread);
    if (got.first == segment_map::none && random.below(2) == 0) got = claims.span(1, 1, 0);
    if (got.first == segment_map::none) got = claims.broken(n, spread);
    if (got.first == segment_map::none) got = claims.pages(n, 1, ~0u, spread);
    return got;
  }
};

namespace {

std::string pages_change_hands(unsigned threads, unsigned num_segments, unsigned lg_pages, unsigned rounds, unsigned stride = 1) {
  map_memory map(num_segments, lg_pages, stride);
  unsigned const num_pages = num_segments << lg_pages;
  cell_memory cells(num_pages);
  test::device_array<unsigned> misplaced(1), served(1);
  gpuheap::launch(threads, claim_and_release{{map.view(), map.relocations()}, cells.view(), rounds, misplaced.data(), served.data()},
                  {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, misplaced.first() == 0, "a claim was not aligned, larger or smaller than asked, or beyond the map or its segment");
  require(problems, served.first() != 0, "no claim was served");
  require(problems, map.num_free() == num_pages, std::to_string(num_pages - map.num_free()) + " pages did not come back");
  require(problems, map.num_whole() == num_segments, "a segment whose pages all came back is not whole");
  require(problems, map.least_free() < num_pages, "the lowest number of free pages was not noted");
  return problems;
}

std::string extents_change_hands(unsigned threads, unsigned num_segments, unsigned lg_pages, unsigned rounds, unsigned most = 400) {
  map_memory map(num_segments, lg_pages);
  unsigned const num_pages = num_segments << lg_pages;
  cell_memory cells(num_pages);
  test::device_array<unsigned> misplaced(1), served(1);
  gpuheap::launch(threads, claim_extents{{map.view(), map.relocations()}, cells.view(), rounds, misplaced.data(), served.data(), most},
                  {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, misplaced.first() == 0, "an extent was not aligned, or beyond the map");
  require(problems, served.first() != 0, "no extent was served");
  require(problems, map.num_free() == num_pages, std::to_string(num_pages - map.num_free()) + " pages did not come back");
  require(problems, map.num_whole() == num_segments, "a segment whose pages all came back is not whole");
  return problems;
}

std::string nothing_is_left(unsigned threads, unsigned num_segments, unsigned lg_pages) {
  map_memory map(num_segments, lg_pages);
  unsigned const num_pages = num_segments << lg_pages;
  cell_memory cells(num_pages);
  test::device_array<unsigned> miscounted(1);
  gpuheap::launch(threads, claim_until_refused{{map.view(), map.relocations()}, cells.view(), miscounted.data()}, {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, miscounted.first() == 0, "a thread was certain that nothing is left, and the count was not 0");
  auto const owners = cells.owners();
  for (unsigned p = 0; p < num_pages; ++p) {
    require(problems, owners[p] != 0, "page " + std::to_string(p) + " was refused to all");
  }
  require(problems, map.num_free() == 0 && map.least_free() == 0, "the counts are not 0 when all is claimed");
  return problems;
}

TEST(SegmentMapContention, NoPageHasTwoOwnersAndAllComeBack) {
  EXPECT_EQ(pages_change_hands(many_threads / 4, 200, 2, 6), "");
  EXPECT_EQ(pages_change_hands(many_threads / 4, 200, 6, 6), "");
  EXPECT_EQ(pages_change_hands(many_threads / 4, 4485, 2, 6, 16), "");
}
TEST(SegmentMapContention, NoPageHasTwoOwnersAndAllComeBackUnderManySchedules) {
  expect_passes(1000, [] { return pages_change_hands(explored_threads, 100, 2, 4); });
  expect_passes(1000, [] { return pages_change_hands(explored_threads, 66, 1, 4, 2); });
  expect_passes(2000, [] { return pages_change_hands(8, 3, 2, 12); });
  expect_passes(2000, [] { return pages_change_hands(6, 1, 3, 12); });
}
TEST(SegmentMapContention, ExtentsHaveOneOwnerAndAllComeBack) {
  EXPECT_EQ(extents_change_hands(many_threads / 4, 200, 6, 12), "");
  expect_passes(1000, [] { return extents_change_hands(explored_threads, 20, 4, 6); });
  expect_passes(2000, [] { return extents_change_hands(8, 3, 2, 12); });
  expect_passes(1000, [] { return extents_change_hands(6, 12, 6, 8); });
}
TEST(SegmentMapContention, ExtentsOfManyLeavesHaveOneOwnerAndAllComeBack) {
  EXPECT_EQ(extents_change_hands(256, 5000, 0, 4, 2000), "");
  expect_passes(400, [] { return extents_change_hands(6, 1500, 0, 4, 1200); });
  expect_passes(400, [] { return extents_change_hands(4, 700, 1, 6, 1400); });
}
TEST(SegmentMapContention, NothingIsLeftWhenAllAreRefused) {
  EXPECT_EQ(nothing_is_left(many_threads / 4, 4485, 2), "");
  EXPECT_EQ(nothing_is_left(many_threads / 4, 70, 6), "");
}
TEST(SegmentMapContention, NothingIsLeftWhenAllAreRefusedUnderManySchedules) {
  expect_passes(800, [] { return nothing_is_left(explored_threads, 70, 2); });
  expect_passes(1500, [] { return nothing_is_left(8, 3, 2); });
}

TEST(SegmentMapContention, NobodyIsRefusedWhileASegmentIsFree) {
  EXPECT_EQ(refusals_are_right(many_threads / 4, 20, false), "");
  expect_passes(1500, [] { return refusals_are_right(12, 8, false); });
}
TEST(SegmentMapContention, NobodyIsRefusedWhileAPageIsFree) {
  EXPECT_EQ(refusals_are_right(many_threads / 4, 20, true), "");
  expect_passes(3000, [] { return refusals_are_right(12, 8, true); });
  expect_passes(5000, [] { return refusals_are_right(2, 12, true, untold::nothing, 4); });
  expect_passes(3000, [] { return refusals_are_right(4, 12, true, untold::nothing, 4); });
}

}  // namespace
}  // namespace structures_test
