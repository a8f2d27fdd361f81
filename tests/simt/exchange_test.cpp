// Tests of values that pass between the lanes of a warp, under full, partial and divergent masks.
#include "kernels.hpp"

namespace simt_test {

struct votes {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const lane = simt::lane_id();
    simt::lane_mask const mine = lane % 2 != 0 ? 0xaaaaaaaau : 0x55555555u;
    require(wrong, simt::ballot(mine, lane < 8) == (mine & 0xffu));
    require(wrong, simt::all_of(mine, lane < 32));
    require(wrong, simt::all_of(mine, lane != 5) == (lane % 2 == 0));
    require(wrong, simt::any_of(mine, lane == 5) == (lane % 2 != 0));
    simt::sync_warp(simt::all_lanes);
    require(wrong, simt::ballot(simt::all_lanes, lane >= 16) == 0xffff0000u);
  }
};

TEST(Exchange, Votes) {
  cells<unsigned> wrong(1);
  run(512, votes{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

template <class T>
struct shuffles {
  unsigned* wrong;
  GPUHEAP_FN static T value_of(unsigned lane) { return static_cast<T>(lane) * static_cast<T>(3) + static_cast<T>(1); }
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const lane = simt::lane_id();
    T const mine = value_of(lane);
    require(wrong, simt::shuffle(simt::all_lanes, mine, 31 - lane) == value_of(31 - lane));
    require(wrong, simt::shuffle_up(simt::all_lanes, mine, 5) == value_of(lane < 5 ? lane : lane - 5));
    require(wrong, simt::shuffle_down(simt::all_lanes, mine, 9) == value_of(lane + 9 < 32 ? lane + 9 : lane));
    require(wrong, simt::shuffle_xor(simt::all_lanes, mine, 21) == value_of(lane ^ 21));
    // Two halves apart, each in its own branch.
    if (lane < 16) {
      require(wrong, simt::shuffle(0xffffu, mine, 3) == value_of(3));
    } else {
      require(wrong, simt::shuffle(0xffff0000u, mine, 19) == value_of(19));
    }
  }
};

template <class T>
class Shuffle : public testing::Test {};
using shuffled = testing::Types<int, unsigned, float, long long, unsigned long long, double>;
TYPED_TEST_SUITE(Shuffle, shuffled);

TYPED_TEST(Shuffle, MovesValues) {
  cells<unsigned> wrong(1);
  run(256, shuffles<TypeParam>{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

struct matches {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const lane = simt::lane_id();
    require(wrong, simt::match_any(simt::all_lanes, lane / 8) == 0xffu << lane / 8 * 8);
    require(wrong, simt::match_any(simt::all_lanes, static_cast<simt::uint64_t>(lane) << 40) == 1u << lane);
    if (lane < 12) require(wrong, simt::match_any(0xfffu, static_cast<void const*>(wrong)) == 0xfffu);
  }
};

TEST(Exchange, MatchesAny) {
  cells<unsigned> wrong(1);
  run(512, matches{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

struct reductions {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const lane = simt::lane_id();
    require(wrong, simt::reduce_add(simt::all_lanes, lane) == 496);
    require(wrong, simt::reduce_min(simt::all_lanes, lane + 7) == 7 && simt::reduce_max(simt::all_lanes, lane + 7) == 38);
    require(wrong, simt::reduce_or(simt::all_lanes, 1u << lane) == ~0u && simt::reduce_and(simt::all_lanes, ~(1u << lane)) == 0);
    if (lane % 3 == 0) {
      simt::lane_mask const third = 0x49249249u;
      require(wrong, simt::reduce_add(third, 2) == 22 && simt::reduce_max(third, lane) == 30 && simt::reduce_min(third, ~lane) == ~30u);
    }
  }
};

TEST(Exchange, Reduces) {
  cells<unsigned> wrong(1);
  run(512, reductions{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

struct partial_warp {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    simt::lane_mask const here = i < 64 ? simt::all_lanes : 0x7f;
    require(wrong, simt::reduce_add(here, 1) == simt::popcount(here));
  }
};

TEST(Exchange, WorksInAPartialWarp) {
  cells<unsigned> wrong(1);
  run(71, partial_warp{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

struct aggregate {
  unsigned* next;
  unsigned* taken;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::lane_mask const here = simt::active_mask();
    unsigned const leader = simt::lowest_bit(here);
    unsigned base = 0;
    if (simt::lane_id() == leader) base = simt::atomic_ref<unsigned>(*next).fetch_add(simt::popcount(here), simt::relaxed);
    base = simt::shuffle(here, base, leader);
    unsigned const rank = simt::popcount(here & static_cast<simt::lane_mask>(simt::low_bits(simt::lane_id())));
    simt::atomic_ref<unsigned>(taken[base + rank]).fetch_add(1u, simt::relaxed);
  }
};

TEST(Exchange, AggregatesOneAtomicForTheActiveLanes) {
  cells<unsigned> next(1), taken(5000);
  run(5000, aggregate{next.data(), taken.data()});
  EXPECT_EQ(next[0], 5000u);
  for (unsigned const n : taken) ASSERT_EQ(n, 1u);
}

}  // namespace simt_test
