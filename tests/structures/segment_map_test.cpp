// The segment map, one claim at a time: the bit tricks and the choice of segments against brute force.
#include "segment_map_checks.hpp"

namespace structures_test {

// Kernel: one claim, by the first thread.
struct claim_one_block {
  segment_map map;
  transit_count moves;
  unsigned order, spread;
  segment_map::claim* out;

  GPUHEAP_FN void operator()(unsigned) const {
    moves.begin();
    *out = map.claim_block(order, spread);
    moves.end();
  }
};
struct claim_one_span {
  segment_map map;
  transit_count moves;
  unsigned n, alignment, phase;
  unsigned* out;

  GPUHEAP_FN void operator()(unsigned) const { *out = map.claim_span(n, alignment, phase, moves); }
};
struct release_one_span {
  segment_map map;
  unsigned first, n;

  GPUHEAP_FN void operator()(unsigned) const { map.release_span(first, n); }
};

namespace {

segment_map::claim claim_block(map_memory& map, unsigned order, unsigned spread = 0) {
  test::device_array<segment_map::claim> out(1);
  gpuheap::launch(1, claim_one_block{map.view(), map.moves(), order, spread, out.data()});
  return out.first();
}
unsigned claim_span(map_memory& map, unsigned n, unsigned alignment = 1, unsigned phase = 0) {
  test::device_array<unsigned> out(1);
  gpuheap::launch(1, claim_one_span{map.view(), map.moves(), n, alignment, phase, out.data()});
  return out.first();
}
void release(map_memory& map, unsigned first, unsigned n) { gpuheap::launch(1, release_one_span{map.view(), first, n}); }

bool all_free(std::vector<bool> const& free, unsigned first, unsigned n) {
  if (first + n > free.size()) return false;
  return std::find(free.begin() + first, free.begin() + first + n, false) == free.begin() + first + n;
}
void mark(std::vector<bool>& free, unsigned first, unsigned n, bool value) {
  std::fill(free.begin() + first, free.begin() + first + n, value);
}
// Free segments in stretches, up to `longest` each.
std::vector<bool> random_map(test::rng& random, unsigned num_segments, unsigned longest) {
  std::vector<bool> free(num_segments);
  for (unsigned s = 0; s < num_segments;) {
    unsigned const gap = random.below(4), stretch = 1 + random.below(longest);
    for (unsigned k = 0; k < stretch && s + gap + k < num_segments; ++k) free[s + gap + k] = true;
    s += gap + stretch;
  }
  return free;
}

// ---- bit tricks

simt::uint64_t random_word(test::rng& random) {
  simt::uint64_t x = test::mix(random.below(1u << 31));
  for (unsigned pass = random.below(4); pass != 0; --pass) x |= test::mix(random.below(1u << 31));
  if (random.below(3) == 0) x |= simt::low_bits(random.below(65)) << random.below(64);
  return random.below(50) == 0 ? ~simt::uint64_t{0} : x;
}

TEST(FreeBits, AlignedBlocksEqualsTrying) {
  test::rng random{1};
  for (unsigned i = 0; i < 5000; ++i) {
    simt::uint64_t const free = random_word(random);
    for (unsigned order = 0; order <= segment_map::max_order; ++order) {
      simt::uint64_t expected = 0;
      for (unsigned at = 0; at < 64; at += 1u << order) {
        simt::uint64_t const block = simt::low_bits(1u << order) << at;
        if ((free & block) == block) expected |= simt::uint64_t{1} << at;
      }
      ASSERT_EQ(gpuheap::structures::aligned_blocks(free, order), expected) << free << ", order " << order;
    }
  }
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

// ---- blocks

TEST(ClaimBlock, TakesTheLargestOrderThatIsThere) {
  test::rng random{3};
  for (unsigned i = 0; i < 400; ++i) {
    auto free = random_map(random, 300, i % 3 == 0 ? 3 : 90);
    if (i % 20 == 0) mark(free, 0, 300, false);
    unsigned const wanted = random.below(segment_map::max_order + 1);
    unsigned order = wanted + 1, first = segment_map::none;
    while (order-- != 0 && first == segment_map::none) {
      for (unsigned s = 0; s < 300 && first == segment_map::none; s += 1u << order) {
        if (all_free(free, s, 1u << order)) first = s;
      }
    }
    ++order;

    map_memory map(free, 1 + i % 3);
    unsigned const before = map.num_free();
    segment_map::claim const got = claim_block(map, wanted, random.below(1u << 16));
    ASSERT_EQ(map.problem(), "");
    if (first == segment_map::none) {
      ASSERT_EQ(got.first, segment_map::none);
      ASSERT_EQ(map.least_free(), before);
      continue;
    }
    ASSERT_NE(got.first, segment_map::none);
    ASSERT_EQ(got.order, order) << "asked for order " << wanted;
    ASSERT_EQ(got.first % (1u << got.order), 0u);
    ASSERT_TRUE(all_free(free, got.first, 1u << got.order));
    if (got.order <= 2 && wanted <= 2) {
      ASSERT_EQ(got.first, first) << "small blocks come from low addresses";
    }
    ASSERT_EQ(map.least_free(), before - (1u << got.order));
    mark(free, got.first, 1u << got.order, false);
    ASSERT_EQ(map.free(), free) << "other segments changed";
  }
}

TEST(ClaimBlock, SpreadsLargeBlocksOverLowLeaves) {
  std::vector<unsigned> taken_from(20);
  for (unsigned spread = 0; spread < 16; ++spread) {
    map_memory map(20 * 64);
    ++taken_from[claim_block(map, 4, spread).first / 64];
  }
  for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(taken_from[i], i < segment_map::leaves_to_choose_from ? 2u : 0u) << "leaf " << i;
}

TEST(ClaimBlock, HandsOutEverySegmentBeforeRefusing) {
  for (unsigned num_segments : {1u, 63u, 64u, 200u}) {
    for (unsigned order : {0u, 3u, 6u}) {
      map_memory map(num_segments);
      std::vector<bool> free(num_segments, true);
      // Ends: a claim takes a segment or the map refuses.
      for (unsigned spread = 0;; ++spread) {
        segment_map::claim const got = claim_block(map, order, spread);
        if (got.first == segment_map::none) break;
        ASSERT_TRUE(all_free(free, got.first, 1u << got.order)) << "claimed twice";
        mark(free, got.first, 1u << got.order, false);
      }
      EXPECT_EQ(std::count(free.begin(), free.end(), true), 0) << num_segments << " segments, order " << order;
      EXPECT_EQ(map.num_free(), 0u);
      EXPECT_EQ(map.least_free(), 0u);
      EXPECT_EQ(claim_span(map, 1), segment_map::none);
      release(map, 0, num_segments);
      EXPECT_EQ(map.problem(), "");
      EXPECT_EQ(map.num_free(), num_segments);
      EXPECT_EQ(map.least_free(), 0u) << "the lowest that ever was";
    }
  }
}

// ---- spans

TEST(ClaimSpan, TakesTheHighestAlignedSpan) {
  test::rng random{4};
  unsigned found = 0;
  for (unsigned i = 0; i < 600; ++i) {
    unsigned const num_segments = 1 + random.below(400);
    auto free = random_map(random, num_segments, i % 3 == 0 ? 8 : 200);
    unsigned const n = 1 + random.below(random.below(3) == 0 ? num_segments : 20);
    unsigned const alignment = 1u << random.below(random.below(2) == 0 ? 2 : 8), phase = random.below(alignment);
    unsigned expected = segment_map::none;
    for (unsigned s = 0; s + n <= num_segments; ++s) {
      if ((s + phase) % alignment == 0 && all_free(free, s, n)) expected = s;
    }

    map_memory map(free, 1 + i % 3);
    unsigned const before = map.num_free();
    ASSERT_EQ(claim_span(map, n, alignment, phase), expected)
        << n << " of " << num_segments << ", alignment " << alignment << ", phase " << phase;
    if (expected != segment_map::none) {
      ++found;
      mark(free, expected, n, false);
      ASSERT_EQ(map.least_free(), before - n);
    }
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
    if (expected == segment_map::none) continue;
    release(map, expected, n);
    mark(free, expected, n, true);
    ASSERT_EQ(map.free(), free);
    ASSERT_EQ(map.problem(), "");
  }
  EXPECT_GT(found, 200u);
  EXPECT_LT(found, 600u);
}

TEST(ClaimSpan, TakesTheWholeMap) {
  for (unsigned num_segments : {1u, 64u, 65u, 200u, 4480u}) {
    map_memory map(num_segments, 2);
    EXPECT_EQ(claim_span(map, num_segments + 1), segment_map::none);
    EXPECT_EQ(claim_span(map, 0), segment_map::none);
    EXPECT_EQ(claim_span(map, ~0u), segment_map::none);
    EXPECT_EQ(claim_span(map, num_segments), 0u);
    EXPECT_EQ(map.problem(), "");
    EXPECT_EQ(map.num_free(), 0u);
    EXPECT_EQ(claim_span(map, 1), segment_map::none);
    EXPECT_EQ(claim_block(map, 6).first, segment_map::none);
    release(map, 0, num_segments);
    EXPECT_EQ(map.problem(), "");
    EXPECT_EQ(claim_span(map, num_segments, 64, 0), 0u);
  }
}

}  // namespace
}  // namespace structures_test
