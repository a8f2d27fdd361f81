// Spans and extents of a segment map, one claim at a time: the choice of pages against brute force.
#include "segment_map_claims.hpp"

namespace structures_test {
namespace {

// ---- spans

TEST(ClaimSpan, TakesTheHighestAlignedSpanAlsoAcrossLeaves) {
  test::rng random{4};
  unsigned found = 0, across = 0, across_many = 0;
  for (unsigned i = 0; i < 600; ++i) {
    // Every fourth map has many leaves with few gaps, for rows that are searched and taken several leaves at a time.
    bool const long_rows = i % 4 == 0;
    unsigned const num_segments = 1 + random.below(long_rows ? 1500 : 400), lg_pages = random.below(3);
    auto segments = random_set(random, num_segments, long_rows ? 4000 : i % 3 == 0 ? 8 : 200);
    unsigned const n = 1 + random.below(long_rows || random.below(3) == 0 ? num_segments : 20);
    unsigned const alignment = 1u << random.below(random.below(2) == 0 ? 2 : 8), phase = random.below(alignment);
    unsigned expected = segment_map::none;
    for (unsigned s = 0; s + n <= num_segments; ++s) {
      if ((s + phase) % alignment == 0 && all_free(segments, s, n)) expected = s;
    }

    map_memory map(of_segments(segments, lg_pages), lg_pages, 1 + i % 3);
    unsigned const before = map.num_free();
    ASSERT_EQ(claim_span(map, n, alignment, phase), expected)
        << n << " of " << num_segments << ", alignment " << alignment << ", phase " << phase;
    if (expected == segment_map::none) {
      ASSERT_EQ(map.moves_so_far(), 0u) << "a search that finds nothing is no move";
    } else {
      ++found;
      across += expected / 64 != (expected + n - 1) / 64;
      across_many += n > 6 * 64;
      mark(segments, expected, n, false);
      ASSERT_EQ(map.least_free(), before - (n << lg_pages));
    }
    ASSERT_EQ(map.free(), of_segments(segments, lg_pages));
    ASSERT_EQ(map.problem(), "");
    if (expected == segment_map::none) continue;
    release_segments(map, expected, n);
    mark(segments, expected, n, true);
    ASSERT_EQ(map.free(), of_segments(segments, lg_pages));
    ASSERT_EQ(map.problem(), "");
  }
  EXPECT_GT(found, 200u);
  EXPECT_LT(found, 600u);
  EXPECT_GT(across, 50u);
  EXPECT_GT(across_many, 20u);
}

TEST(ClaimSpan, TakesNoBrokenSegment) {
  pages_set free(10 * 4, true);
  free[5 * 4 + 3] = false;
  map_memory map(free, 2);
  EXPECT_EQ(claim_span(map, 6), segment_map::none);
  EXPECT_EQ(claim_span(map, 5), 0u);
  release_pages(map, 5 * 4 + 3, 1);
  EXPECT_EQ(claim_span(map, 5), 5u) << "whole again";
}

// ---- extents

TEST(ClaimExtent, TakesTheHighestAlignedPagesAlsoAcrossSegments) {
  test::rng random{5};
  unsigned found = 0, across = 0;
  for (unsigned i = 0; i < 600; ++i) {
    unsigned const num_segments = 1 + random.below(200), lg_pages = 1 + random.below(6);
    auto free = random_set(random, num_segments << lg_pages, i % 3 == 0 ? 8 : i % 3 == 1 ? 200 : 4000);
    unsigned const n = 1 + random.below(random.below(3) == 0 ? num_segments << lg_pages : 3u << lg_pages);
    unsigned const alignment = 1u << random.below(random.below(2) == 0 ? 2 : 8), phase = random.below(alignment);
    unsigned expected = segment_map::none;
    for (unsigned p = 0; p + n <= num_segments << lg_pages; ++p) {
      if ((p + phase) % alignment == 0 && all_free(free, p, n)) expected = p;
    }
    map_memory map(free, lg_pages, 1 + i % 3);
    unsigned const before = map.num_free();
    ASSERT_EQ(claim_extent(map, n, alignment, phase), expected)
        << n << " of " << num_segments << " << " << lg_pages << ", alignment " << alignment << ", phase " << phase;
    if (expected == segment_map::none) {
      ASSERT_EQ(map.moves_so_far(), 0u) << "a search that finds nothing is no move";
      continue;
    }
    ++found;
    across += expected >> lg_pages != (expected + n - 1) >> lg_pages;
    mark(free, expected, n, false);
    ASSERT_EQ(map.least_free(), before - n);
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
    release_pages(map, expected, n);
    mark(free, expected, n, true);
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
  }
  EXPECT_GT(found, 200u);
  EXPECT_LT(found, 600u);
  EXPECT_GT(across, 50u);
}

TEST(ClaimExtent, AtAPlaceTakesAllOrNothing) {
  test::rng random{6};
  unsigned taken = 0;
  for (unsigned i = 0; i < 400; ++i) {
    unsigned const num_segments = 1 + random.below(80), lg_pages = random.below(7), num_pages = num_segments << lg_pages;
    auto free = random_set(random, num_pages, i % 2 == 0 ? 20 : 400);
    map_memory map(free, lg_pages);
    unsigned const first = random.below(num_pages + 3), n = 1 + random.below(random.below(2) == 0 ? 10 : 100);
    bool const there = first + n <= num_pages && all_free(free, first, n);
    ASSERT_EQ(claim_at(map, first, n), there) << first << ", " << n << " of " << num_pages;
    if (there) mark(free, first, n, false);
    taken += there;
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
  }
  EXPECT_GT(taken, 100u);
  EXPECT_LT(taken, 350u);
}

TEST(ClaimExtent, LeavesNoGapBetweenNeighbours) {
  for (unsigned n : {20u, 48u, 80u, 100u, 320u}) {
    map_memory map(50, 6);
    std::vector<unsigned> held;
    // Ends: each claim takes pages.
    for (unsigned first; (first = claim_extent(map, n)) != segment_map::none;) held.push_back(first);
    EXPECT_EQ(held.size(), 50u * 64 / n);
    for (unsigned first : held) release_pages(map, first, n);
    EXPECT_EQ(map.problem(), "");
    EXPECT_EQ(map.num_whole(), 50u);
  }
}

TEST(ClaimSpan, TakesTheWholeMap) {
  for (unsigned num_segments : {1u, 64u, 65u, 200u, 4480u}) {
    map_memory map(num_segments, 2, 2);
    EXPECT_EQ(claim_span(map, num_segments + 1), segment_map::none);
    EXPECT_EQ(claim_span(map, 0), segment_map::none);
    EXPECT_EQ(claim_span(map, ~0u), segment_map::none);
    EXPECT_EQ(claim_span(map, num_segments), 0u);
    EXPECT_EQ(map.problem(), "");
    EXPECT_EQ(map.num_free(), 0u);
    EXPECT_EQ(claim_span(map, 1), segment_map::none);
    EXPECT_EQ(claim(map, {claim_kind::segments, 40}).got.first, segment_map::none);
    EXPECT_EQ(claim(map, {claim_kind::broken, 1}).got.first, segment_map::none);
    EXPECT_EQ(claim(map, {claim_kind::pages, 1}).got.first, segment_map::none);
    release_segments(map, 0, num_segments);
    EXPECT_EQ(map.problem(), "");
    EXPECT_EQ(claim_span(map, num_segments, 64, 0), 0u);
  }
}

}  // namespace
}  // namespace structures_test
