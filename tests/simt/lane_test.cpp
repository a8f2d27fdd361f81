// Tests of a lane's number, the mask of active lanes, and the clocks.
#include "kernels.hpp"

namespace simt_test {

struct know_their_place {
  unsigned* wrong;
  unsigned* sm;
  unsigned* warp;
  GPUHEAP_FN void operator()(unsigned i) const {
    require(wrong, simt::thread_in_block() == i % 96 && simt::threads_per_block() == 96);
    require(wrong, simt::block_id() == i / 96 && simt::num_blocks() == 11);
    require(wrong, simt::lane_id() == i % 96 % 32 && simt::global_warp() == i / 32);
    sm[i] = simt::sm_id();
    warp[i] = simt::warp_on_sm();
  }
};

TEST(Lane, KnowsItsPlace) {
  cells<unsigned> wrong(1), sm(1000), warp(1000);
  run(1000, know_their_place{wrong.data(), sm.data(), warp.data()}, 96);
  EXPECT_EQ(wrong[0], 0u);
  for (unsigned i = 1; i < 1000; ++i) {
    if (i % 96 == 0) continue;
    EXPECT_EQ(sm[i], sm[i - 1]) << "one block on two multiprocessors";
    EXPECT_EQ(i % 32 != 0, warp[i] == warp[i - 1]) << "one warp in two places, or two of a block in one";
  }
}

struct count_calls {
  unsigned* calls;
  GPUHEAP_FN void operator()(unsigned i) const { simt::atomic_ref<unsigned>(calls[i]).fetch_add(1u, simt::relaxed); }
};

TEST(Launch, CallsEachIndexOnce) {
  for (unsigned const num_threads : {0u, 1u, 33u, 1000u, 70'000u}) {
    cells<unsigned> calls(70'001);
    run(num_threads, count_calls{calls.data()}, 128);
    for (unsigned i = 0; i < calls.size(); ++i) ASSERT_EQ(calls[i], i < num_threads ? 1u : 0u) << i;
  }
}

struct see_who_is_here {
  simt::lane_mask* masks;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (simt::lane_id() % 4 == 1) return;
    simt::lane_mask const here = simt::active_mask();
    masks[i] = here;
    if (simt::ballot(here, true) != here) masks[i] = 0;
  }
};

TEST(ActiveMask, HoldsTheCallerAndOnlyLanesThatAreThere) {
  cells<simt::lane_mask> masks(500);
  run(500, see_who_is_here{masks.data()});
  for (unsigned i = 0; i < 500; ++i) {
    if (i % 4 == 1) continue;
    EXPECT_EQ(masks[i] >> i % 32 & 1, 1u);
    EXPECT_EQ(masks[i] & 0x22222222u, 0u);
  }
}

struct wait_by_the_clock {
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned) const {
    simt::uint64_t const cycles = simt::clock_cycles(), ns = simt::clock_ns();
    simt::back_off pause;
    // Ends: the clock advances.
    while (simt::clock_ns() - ns < 5000) pause.wait();
    require(wrong, simt::clock_cycles() != cycles);
  }
};

TEST(Clocks, Advance) {
  cells<unsigned> wrong(1);
  run(64, wait_by_the_clock{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

}  // namespace simt_test
