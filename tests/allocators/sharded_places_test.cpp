// The default allocator's policy, as plain functions of plain numbers: the places where a refill looks for a new span. No kernel runs here.
#include <gpuheap/allocators/sharded_spans/policy.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace sharded_test {
namespace {

namespace sharded = gpuheap::sharded;
namespace classes = gpuheap::structures::size_classes;

// Rows of the shards of one class do not meet; every place lies in the tree.
TEST(ShardedPlaces, TheRowsOfSeveralShardsLieSideBySide) {
  for (unsigned const n : {1u, 3u, 16u, 64u}) {
    std::set<unsigned> taken;
    for (unsigned k = 0; k < 16; ++k) {
      sharded::row_place const place = sharded::place_row(n, 20, k, 16, 4, 100, std::uint64_t{1} << 5, 0, false, true);
      for (unsigned i = 0; i < n; ++i) EXPECT_TRUE(taken.insert(place.leaf * 64 + place.bit + i).second) << n << " segments, shard " << k;
      EXPECT_LE(place.bit + n, 64u);
    }
    EXPECT_EQ(*taken.begin(), 5u * 64) << "from the lowest leaf with a bit on";
  }
}
TEST(ShardedPlaces, TheRowsOfALaunchAvoidTheDividedSegments) {
  for (unsigned n = 1; n <= 64; ++n) {
    for (unsigned const lg_shards : {1u, 2u, 3u, 4u}) {
      unsigned const divided = 2, shards = 1u << lg_shards;
      std::set<unsigned> taken;
      unsigned on_divided = 0;
      for (unsigned k = 0; k < shards; ++k) {
        sharded::row_place const place = sharded::place_row(n, 20, k, 16, lg_shards, 100, 1, divided, false, true);
        ASSERT_LE(place.bit + n, 64u);
        if (place.leaf == 0 && place.bit < divided) {
          ++on_divided;
          EXPECT_TRUE(place.only_there) << "the refill goes on to another leaf, and takes no row of another shard";
        }
        for (unsigned i = 0; i < n; ++i) EXPECT_TRUE(taken.insert(place.leaf * 64 + place.bit + i).second) << n << " segments, shard " << k;
      }
      EXPECT_LE(on_divided, 1u);
      EXPECT_LE(*taken.rbegin(), (shards / (64 / n) + 1) * 64) << n << " segments, " << shards << " shards";
    }
  }
}
// Rows that lie apart stay close together, and few of them meet.
TEST(ShardedPlaces, TheRowsOfSeveralClassesLieApartAndClose) {
  for (unsigned const n : {1u, 3u, 16u}) {
    unsigned const lg_shards = 2, places = 1u << (lg_shards + sharded::lg_places_per_row), rows = 64 / n;
    std::set<unsigned> taken;
    for (unsigned c = 0; c < 5; ++c) {
      for (unsigned k = 0; k < 1u << lg_shards; ++k) {
        sharded::row_place const place = sharded::place_row(n, c, k, 16, lg_shards, 100, std::uint64_t{1} << 5, 0, true, false);
        unsigned const row = (place.leaf - 5) * rows + place.bit / n;
        EXPECT_LT(row, places) << n << " segments, class " << c << ", shard " << k;
        EXPECT_EQ(place.bit % n, 0u);
        taken.insert(row);
      }
    }
    EXPECT_GE(taken.size(), places / 2) << "of 20 rows at " << places << " places";
  }
}
TEST(ShardedPlaces, EveryPlaceLiesInTheTree) {
  for (unsigned leaves = 1; leaves <= 4096; leaves = leaves == 200 ? 4096 : leaves + 1) {
    for (unsigned c = 0; c < classes::count; c += 7) {
      for (unsigned const k : {0u, c % 16, 15u}) {
        for (bool const apart : {false, true}) {
          for (std::uint64_t const low : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << ((leaves - 1) % 64)}) {
            sharded::row_place const place = sharded::place_row(1 + c % 64, c, k, 16, 4, leaves, low, 2, apart, !apart && k % 2 == 0);
            ASSERT_LT(place.leaf, leaves);
            ASSERT_LT(place.bit, 64u);
            ASSERT_TRUE(place.step >= 1 && (place.step < leaves || leaves == 1));
          }
        }
      }
    }
  }
}
TEST(ShardedPlaces, RefillsThatLostTheirRowsLookAtDifferentPlaces) {
  std::set<unsigned> places;
  for (unsigned c = 0; c < classes::count; ++c) {
    EXPECT_LT(sharded::bit_after_loss(c, 15), 64u);
    places.insert(sharded::bit_after_loss(c, 0));
    EXPECT_NE(sharded::bit_after_loss(c, 0), sharded::bit_after_loss(c, 1));
  }
  EXPECT_GE(places.size(), 35u) << "of 60 classes and 64 places";
}
TEST(ShardedPlaces, ARowIsFoundFromItsPlaceOn) {
  auto const is = [](sharded::free_row row, unsigned first, unsigned length) { return row.first == first && row.length == length; };
  EXPECT_TRUE(is(sharded::find_row(0xff00, 4, 0, true), 8, 4));
  EXPECT_TRUE(is(sharded::find_row(0xff00, 4, 10, true), 10, 4));
  EXPECT_TRUE(is(sharded::find_row(0xff00, 4, 14, true), 8, 4)) << "none there: the lowest place";
  EXPECT_TRUE(is(sharded::find_row(0xff00, 9, 0, true), 0, 0));
  EXPECT_TRUE(is(sharded::find_row(0xff00, 32, 0, false), 8, 8)) << "a quarter of it will do";
  EXPECT_TRUE(is(sharded::find_row(0xff00, 32, 0, true), 0, 0)) << "a whole row";
  EXPECT_TRUE(is(sharded::find_row(0, 1, 0, false), 0, 0));
  EXPECT_TRUE(is(sharded::find_row(~std::uint64_t{0}, 64, 0, true), 0, 64));
}
TEST(ShardedPlaces, ASmallLaunchThatWantsALongRowLooksForAWholeOneFirst) {
  EXPECT_TRUE(sharded::needs_whole_row(false, true, 0));
  EXPECT_FALSE(sharded::needs_whole_row(false, true, 1));
  EXPECT_FALSE(sharded::needs_whole_row(false, true, sharded::looks_for_row - 1)) << "the first look where memory is low";
  EXPECT_FALSE(sharded::needs_whole_row(false, false, 0)) << "it wants no long row";
  EXPECT_TRUE(sharded::needs_whole_row(true, false, 0));
  EXPECT_TRUE(sharded::needs_whole_row(true, false, sharded::looks_for_row)) << "halves of a row are found by a smaller n";
}

}  // namespace
}  // namespace sharded_test
