// The segment map, one claim at a time: the bit tricks and the choice of segments and pages against brute force.
#include "segment_map_claims.hpp"

#include <algorithm>

namespace structures_test {
namespace {

// ---- bit tricks

simt::uint64_t random_word(test::rng& random) {
  simt::uint64_t x = test::mix(random.below(1u << 31));
  for (unsigned pass = random.below(4); pass != 0; --pass) x |= test::mix(random.below(1u << 31));
  if (random.below(3) == 0) x |= simt::low_bits(random.below(65)) << random.below(64);
  return random.below(50) == 0 ? ~simt::uint64_t{0} : x;
}

TEST(FreeBits, ConsecutiveEqualsTrying) {
  test::rng random{2};
  for (unsigned i = 0; i < 1000; ++i) {
    simt::uint64_t const free = random_word(random);
    for (unsigned n = 1; n <= 64; ++n) {
      simt::uint64_t expected = 0;
      for (unsigned at = 0; at + n <= 64; ++at) {
        simt::uint64_t const block = simt::low_bits(n) << at;
        if ((free & block) == block) expected |= simt::uint64_t{1} << at;
      }
      ASSERT_EQ(gpuheap::structures::consecutive(free, n), expected) << free << ", " << n << " bits";
    }
  }
}
TEST(FreeBits, RunLengthEqualsCounting) {
  test::rng random{3};
  for (unsigned i = 0; i < 2000; ++i) {
    simt::uint64_t const free = random_word(random);
    for (unsigned at = 0; at < 64; ++at) {
      unsigned expected = 0;
      while (at + expected < 64 && (free >> (at + expected) & 1) != 0) ++expected;
      ASSERT_EQ(gpuheap::structures::run_length(free, at), expected) << free << " from " << at;
    }
  }
}

TEST(LazyTransit, IsAMoveOnlyOnceItHasBegun) {
  test::device_array<relocation_count::word> state(1), seen(4);
  gpuheap::launch(1, one_lazy_relocation{{state.data()}, seen.data()});
  EXPECT_EQ(seen.read(), (std::vector<relocation_count::word>{0, relocation_count::begun_one + 1, relocation_count::begun_one,
                                                              2 * relocation_count::begun_one + 1}));
  EXPECT_EQ(state.first(), 2 * relocation_count::begun_one);
}

// ---- whole segments

// The row that a claim of n segments from the lowest place on takes: in two rounds over the leaves, at first at least a quarter of n.
page_range expected_row(pages_set const& segments, unsigned n) {
  for (unsigned least : {std::max(n / 4, 1u), 1u}) {
    for (unsigned leaf = 0; leaf < segments.size(); leaf += 64) {
      unsigned const end = std::min<unsigned>(leaf + 64, static_cast<unsigned>(segments.size()));
      for (unsigned s = leaf; s + least <= end; ++s) {
        if (!all_free(segments, s, least)) continue;
        unsigned length = least;
        while (length < n && s + length < end && segments[s + length]) ++length;
        return {s, length};
      }
    }
  }
  return {};
}

TEST(ClaimSegments, TakesTheLowestRowOfAQuarterOfThatOrElseTheLowestSegments) {
  test::rng random{3};
  constexpr unsigned num_segments = 300, lg_pages = 3;
  for (unsigned i = 0; i < 600; ++i) {
    auto segments = random_set(random, num_segments, i % 3 == 0 ? 3 : i % 3 == 1 ? 20 : 90);
    if (i % 20 == 0) mark(segments, 0, num_segments, false);
    unsigned const pages = 1 + random.below(i % 2 == 0 ? 80 << lg_pages : 12 << lg_pages);
    // Rounded up if that wastes less than an eighth.
    unsigned const n = std::min((pages + pages / 8) >> lg_pages, 64u);
    page_range const expected = n == 0 ? page_range{} : expected_row(segments, n);

    map_memory map(of_segments(segments, lg_pages), lg_pages, 1 + i % 3);
    unsigned const before = map.num_free();
    claim_answer const got = claim(map, {claim_kind::segments, pages});
    ASSERT_EQ(map.problem(), "");
    ASSERT_EQ(got.got.first, expected.first) << pages << " pages";
    ASSERT_EQ(got.moved, !expected.empty()) << "a search that finds nothing is no move";
    if (!expected.empty()) {
      ASSERT_TRUE(got.got.of_segments);
      ASSERT_EQ(got.got.length, expected.length) << pages << " pages";
      mark(segments, expected.first, expected.length, false);
    }
    ASSERT_EQ(map.least_free(), before - (expected.length << lg_pages));
    ASSERT_EQ(map.free(), of_segments(segments, lg_pages)) << "other segments changed";
  }
}

TEST(ClaimSegments, LeavesLessThanASegmentToOthers) {
  map_memory map(100, 6);
  EXPECT_EQ(claim(map, {claim_kind::segments, 1}).got.first, segment_map::none);
  EXPECT_EQ(claim(map, {claim_kind::segments, 56}).got.first, segment_map::none);
  EXPECT_EQ(claim(map, {claim_kind::segments, 57}).got.length, 1u) << "a seventh more than asked";
  EXPECT_EQ(claim(map, {claim_kind::segments, 64 * 1000}).got.length, 63u) << "at most what a leaf has left";
  map_memory fresh(100, 6);
  EXPECT_EQ(claim(fresh, {claim_kind::segments, 64 * 1000}).got.length, 64u) << "never more";
}

TEST(ClaimSegments, SpreadsOverLeavesAndWithinThem) {
  constexpr unsigned num_leaves = 20;
  std::vector<unsigned> leaves(num_leaves), places(64);
  for (unsigned spread = 1; spread < 2 * num_leaves + 1; ++spread) {
    map_memory map(num_leaves * 64);
    ++leaves[claim(map, {claim_kind::segments, 4, 1, ~0u, spread}).got.first / 64];
  }
  for (unsigned n : leaves) EXPECT_EQ(n, 2u);
  for (unsigned k = 0; k < 8; ++k) {
    map_memory map(num_leaves * 64);
    ++places[claim(map, {claim_kind::segments, 4, 1, ~0u, k << 8 | num_leaves}).got.first % 64];
  }
  EXPECT_GE(std::count(places.begin(), places.end(), 1u), 7);
  EXPECT_LE(*std::max_element(places.begin(), places.end()), 2u);
}

TEST(ClaimSegments, AnySpreadFindsWhatThereIs) {
  test::rng random{5};
  for (unsigned i = 0; i < 400; ++i) {
    pages_set segments(300);
    unsigned const first = random.below(300), length = std::min(1 + random.below(5), (first / 64 + 1) * 64 - first);
    for (unsigned k = 0; k < length && first + k < 300; ++k) segments[first + k] = true;
    map_memory map(of_segments(segments, 2), 2);
    auto const got = claim(map, {claim_kind::segments, 1 + 4 * random.below(70) + 3, 1, ~0u, random.below(1u << 16)}).got;
    ASSERT_NE(got.first, segment_map::none);
    ASSERT_TRUE(all_free(segments, got.first, got.length));
    mark(segments, got.first, got.length, false);
    ASSERT_EQ(map.free(), of_segments(segments, 2));
    ASSERT_EQ(map.problem(), "");
  }
}

TEST(ClaimSegments, TellsThatItEmptiedALeafAndFinishClaimClearsTheSummary) {
  for (bool finish_claim : {false, true}) {
    map_memory map(66, 1);
    auto const most = claim(map, {claim_kind::segments, 128, 1, ~0u, 0, finish_claim});
    EXPECT_EQ(most.got.length, 64u);
    EXPECT_TRUE(most.got.stale);
    claim(map, {claim_kind::segments, 2});
    auto const last = claim(map, {claim_kind::segments, 2, 1, ~0u, 0, finish_claim});
    EXPECT_TRUE(last.got.stale);
    // The next search looks at the stale bit and clears it, which is a relocation.
    EXPECT_EQ(claim(map, {claim_kind::segments, 2}).moved, !finish_claim);
    EXPECT_FALSE(claim(map, {claim_kind::segments, 2}).moved);
  }
}

// ---- pages

// The pages of one segment that a claim takes from the lowest place on: n, or half of it and so on, but not less than `least`.
page_range expected_pages(pages_set const& free, unsigned s, unsigned lg_pages, unsigned n, unsigned least) {
  unsigned const begin = s << lg_pages, end = begin + (1u << lg_pages);
  for (;; n = std::max(n / 2, least)) {
    for (unsigned p = begin; p + n <= end; ++p) {
      if (all_free(free, p, n)) return {p, n};
    }
    if (n == least) return {};
  }
}

TEST(ClaimPages, TakesThoseOfTheFirstBrokenSegmentsThatAreLongEnough) {
  test::rng random{6};
  unsigned found = 0;
  for (unsigned i = 0; i < 800; ++i) {
    unsigned const lg_pages = 1 + random.below(6), per_segment = 1u << lg_pages, num_segments = 1 + random.below(150);
    auto free = random_set(random, num_segments << lg_pages, i % 3 == 0 ? 2 : i % 3 == 1 ? 9 : 40);
    for (unsigned s = 0; s < num_segments; ++s) {
      if (random.below(3) == 0) mark(free, s << lg_pages, per_segment, random.below(2) == 0);
    }
    unsigned const n = 1 + random.below(per_segment), least = random.below(3) == 0 ? n : 1 + random.below(n);
    unsigned const looks = random.below(2) == 0 ? ~0u : random.below(6);
    page_range expected{};
    unsigned looked = 0;
    for (unsigned s = 0; s < num_segments && expected.empty() && looked != looks; ++s) {
      bool const broken = !all_free(free, s << lg_pages, per_segment) && !none_free(free, s << lg_pages, per_segment);
      if (!broken) continue;
      ++looked;
      expected = expected_pages(free, s, lg_pages, n, least);
    }

    map_memory map(free, lg_pages, 1 + i % 3);
    unsigned const before = map.num_free();
    claim_answer const got = claim(map, {claim_kind::pages, n, least, looks});
    ASSERT_EQ(map.problem(), "");
    ASSERT_EQ(got.got.first, expected.first) << n << " pages, at least " << least << ", " << looks << " looks";
    ASSERT_EQ(got.moved, !expected.empty()) << "a search that finds nothing is no move";
    if (!expected.empty()) {
      ++found;
      ASSERT_FALSE(got.got.of_segments);
      ASSERT_EQ(got.got.length, expected.length);
      mark(free, expected.first, expected.length, false);
    }
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.least_free(), before - expected.length);
    if (expected.empty()) continue;
    release_pages(map, expected.first, expected.length);
    mark(free, expected.first, expected.length, true);
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
  }
  EXPECT_GT(found, 300u);
  EXPECT_LT(found, 800u);
}

TEST(ClaimPages, SpreadsOverSegments) {
  pages_set free(64 * 4, true);
  for (unsigned s = 0; s < 64; ++s) free[s * 4] = false;
  std::vector<unsigned> taken(64);
  for (unsigned spread = 0; spread < 64; ++spread) {
    map_memory map(free, 2);
    ++taken[claim(map, {claim_kind::pages, 2, 2, 3, spread}).got.first / 4];
  }
  for (unsigned n : taken) EXPECT_EQ(n, 1u);
}

TEST(ClaimPages, AnySpreadFindsWhatThereIs) {
  test::rng random{7};
  for (unsigned i = 0; i < 400; ++i) {
    pages_set free(200 * 4);
    unsigned const page = random.below(800);
    free[page] = true;
    map_memory map(free, 2);
    ASSERT_EQ(claim(map, {claim_kind::pages, 1 + random.below(4), 1, ~0u, random.below(1u << 16)}).got.first, page);
  }
}

TEST(ClaimPages, ASegmentWhoseLastPageIsClaimedIsLookedAtNoMore) {
  for (bool finish_claim : {false, true}) {
    map_memory map(1, 2);
    EXPECT_EQ(claim(map, {claim_kind::broken, 2}).got.first, 0u);
    EXPECT_EQ(map.num_broken(), 1u);
    EXPECT_EQ(claim(map, {claim_kind::pages, 2, 1, ~0u, 0, finish_claim}).got.first, 2u);
    EXPECT_EQ(map.num_broken(), finish_claim ? 0u : 1u);
    // A search takes the segment from the broken ones if it is still there, and the next search clears the summary bit over it. Both are
    // relocations. The searches after them relocate nothing.
    for (unsigned relocating = finish_claim ? 1 : 2, search = 0; search < 4; ++search) {
      claim_answer const answer = claim(map, {claim_kind::pages, 1});
      EXPECT_EQ(answer.got.first, segment_map::none);
      EXPECT_EQ(answer.moved, search < relocating) << "search " << search;
    }
    EXPECT_EQ(map.num_broken(), 0u);
    release_pages(map, 1, 1);
    EXPECT_EQ(map.num_broken(), 1u);
    EXPECT_EQ(claim(map, {claim_kind::pages, 1}).got.first, 1u);
    EXPECT_EQ(map.num_broken(), 0u);
    if (finish_claim) {
      EXPECT_EQ(map.problem(), "");
    }
  }
}

// Segments without a free page, among which a search would look in vain, hide none that has one.
TEST(ClaimPages, FewLooksSufficeWhereManySegmentsAreFull) {
  constexpr unsigned num_segments = 150;
  map_memory map(num_segments, 2);
  for (unsigned s = 0; s < num_segments; ++s) {
    EXPECT_EQ(claim(map, {claim_kind::broken, 3}).got.first, s * 4);
    if (s != num_segments - 1) {
      EXPECT_EQ(claim(map, {claim_kind::pages, 1}).got.first, s * 4 + 3);
    }
  }
  EXPECT_EQ(map.num_broken(), 1u);
  EXPECT_EQ(claim(map, {claim_kind::pages, 1, 1, 1}).got.first, num_segments * 4 - 1);
  EXPECT_EQ(map.problem(), "");
}

// ---- segments broken up and whole again

TEST(BreakSegment, TakesTheFirstPagesOfTheLowestWholeOne) {
  for (unsigned lg_pages : {2u, 6u}) {
    unsigned const per_segment = 1u << lg_pages;
    for (unsigned n = 1; n <= per_segment; ++n) {
      pages_set free(per_segment * 70, true);
      mark(free, 0, 66 * per_segment, false);
      mark(free, 3 * per_segment, 1, true);  // broken up already
      map_memory map(free, lg_pages);
      claim_answer const got = claim(map, {claim_kind::broken, n});
      EXPECT_EQ(got.got.first, 66 * per_segment);
      EXPECT_EQ(got.got.length, n);
      EXPECT_FALSE(got.got.of_segments);
      EXPECT_TRUE(got.moved);
      mark(free, 66 * per_segment, n, false);
      EXPECT_EQ(map.free(), free);
      EXPECT_EQ(map.problem(), "");
      release_pages(map, got.got.first, n);
      EXPECT_EQ(map.problem(), "") << "whole again";
      EXPECT_EQ(map.num_whole(), 4u);
    }
  }
  map_memory taken(pages_set(8), 2);
  EXPECT_EQ(claim(taken, {claim_kind::broken, 1}).got.first, segment_map::none);
  EXPECT_EQ(taken.moves_so_far(), 0u) << "a search that finds nothing is no move";
}

TEST(Rejoin, ASegmentIsWholeWhenItsLastPageComesBack) {
  test::rng random{8};
  for (unsigned i = 0; i < 100; ++i) {
    unsigned const lg_pages = 1 + random.below(6), per_segment = 1u << lg_pages;
    map_memory map(3, lg_pages);
    std::vector<segment_map::claim> held;
    for (unsigned left = per_segment; left != 0; left -= held.back().length) {
      claim_order const order{held.empty() ? claim_kind::broken : claim_kind::pages, 1 + random.below(left)};
      held.push_back(claim(map, order).got);
      ASSERT_NE(held.back().first, segment_map::none);
      ASSERT_LT(held.back().first, per_segment) << "contiguous, and from the first segment";
      ASSERT_EQ(map.num_broken(), left == held.back().length ? 0u : 1u) << "as long as it has a free page";
    }
    ASSERT_EQ(map.num_free(), 2 * per_segment);
    while (!held.empty()) {
      ASSERT_EQ(map.num_whole(), 2u);
      unsigned const which = random.below(static_cast<unsigned>(held.size()));
      release(map, held[which]);
      held.erase(held.begin() + which);
      ASSERT_EQ(map.problem(), "");
      ASSERT_EQ(map.num_broken(), held.empty() ? 0u : 1u) << "until it is whole";
    }
    ASSERT_EQ(map.num_whole(), 3u);
    ASSERT_EQ(claim_span(map, 3), 0u);
  }
}

// All kinds of claims and releases in turn, against a set of pages.
TEST(SegmentMap, AnySequenceKeepsEveryPageOnce) {
  test::rng random{9};
  for (unsigned num_segments : {1u, 5u, 70u, 150u}) {
    for (unsigned lg_pages : {0u, 2u, 6u}) {
      map_memory map(num_segments, lg_pages);
      pages_set free(num_segments << lg_pages, true);
      std::vector<segment_map::claim> held;
      for (unsigned i = 0; i < 300; ++i) {
        segment_map::claim got{};
        unsigned const way = random.below(7), spread = random.below(2) == 0 ? 0 : random.below(1u << 16);
        unsigned const n = 1 + random.below(1u << lg_pages);
        if (way == 0) got = claim(map, {claim_kind::segments, 1 + random.below(4u << lg_pages), 1, ~0u, spread}).got;
        if (way == 1) got = claim(map, {claim_kind::broken, n, 1, ~0u, spread}).got;
        if (way == 2 || way == 3) got = claim(map, {claim_kind::pages, n, 1 + random.below(n), ~0u, spread}).got;
        if (way == 4) {
          unsigned const length = 1 + random.below(3);
          got = claim_of(claim_span(map, length), length);
        }
        if (got.first != segment_map::none) {
          page_range const all = pages_of(map.view(), got);
          ASSERT_TRUE(all_free(free, all.first, all.length)) << "claimed twice";
          mark(free, all.first, all.length, false);
          held.push_back(got);
        }
        if (way >= 5 && !held.empty()) {
          unsigned const which = random.below(static_cast<unsigned>(held.size()));
          page_range const all = pages_of(map.view(), held[which]);
          mark(free, all.first, all.length, true);
          release(map, held[which]);
          held.erase(held.begin() + which);
        }
        ASSERT_EQ(map.free(), free);
        ASSERT_EQ(map.num_broken(), num_broken(free, lg_pages));
        if (i % 10 == 0) {
          ASSERT_EQ(map.problem(), "");
        }
      }
      for (auto const& one : held) release(map, one);
      ASSERT_EQ(map.problem(), "");
      ASSERT_EQ(map.num_whole(), num_segments);
    }
  }
}

TEST(SegmentMap, HandsOutEveryPageBeforeRefusing) {
  for (unsigned num_segments : {1u, 63u, 64u, 200u}) {
    for (unsigned pages : {1u, 3u, 4u, 30u}) {
      map_memory map(num_segments, 2);
      pages_set free(num_segments * 4, true);
      // Ends: a claim takes something or the map refuses.
      for (unsigned spread = 0;; ++spread) {
        unsigned const n = std::min(pages, 4u);
        auto got = claim(map, {claim_kind::segments, pages, 1, ~0u, spread}).got;
        if (got.first == segment_map::none) got = claim(map, {claim_kind::pages, n, n, 3, spread}).got;
        if (got.first == segment_map::none) got = claim(map, {claim_kind::broken, n, 1, ~0u, spread}).got;
        if (got.first == segment_map::none) got = claim(map, {claim_kind::pages, n, 1, ~0u, spread}).got;
        if (got.first == segment_map::none) break;
        page_range const all = pages_of(map.view(), got);
        ASSERT_TRUE(all_free(free, all.first, all.length)) << "claimed twice";
        mark(free, all.first, all.length, false);
      }
      EXPECT_TRUE(none_free(free, 0, num_segments * 4)) << num_segments << " segments, " << pages << " pages";
      EXPECT_EQ(map.num_free(), 0u);
      EXPECT_EQ(map.least_free(), 0u);
      EXPECT_EQ(claim_span(map, 1), segment_map::none);
      release_pages(map, 0, 1);
      release_pages(map, 1, 3);
      // Each may have been claimed as the pages of a broken segment.
      for (unsigned s = 1; s < num_segments; ++s) release_segments(map, s, 1);
      EXPECT_EQ(map.problem(), "");
      EXPECT_EQ(map.num_whole(), num_segments);
      EXPECT_EQ(map.least_free(), 0u) << "the lowest that ever was";
    }
  }
}

}  // namespace
}  // namespace structures_test
