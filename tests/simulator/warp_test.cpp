// Tests of values that pass between lanes, of the mask of active lanes, and of the misuse of both.
#include <set>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

using simulator::failure_kind;

TEST(Warp, ExchangesGiveWhatTheHardwareGives) {
  under_all_schedulers([] {
    tally bad;
    run(96, [&](unsigned) {
      unsigned const lane = simt::lane_id();
      simt::lane_mask const odd = 0xaaaaaaaa, mine = lane % 2 != 0 ? odd : ~odd;
      auto const expect = [&](bool right) { bad += !right; };
      expect(simt::ballot(mine, lane < 8) == (mine & 0xff));
      expect(simt::all_of(mine, true) && !simt::all_of(mine, lane != 4 && lane != 5));
      expect(!simt::any_of(mine, false) && simt::any_of(mine, lane < 2));
      expect(simt::shuffle(mine, lane * 10, lane % 2 + 6) == (lane % 2 + 6) * 10);
      expect(simt::shuffle(simt::all_lanes, double(lane), 31 - lane) == 31 - lane);
      expect(simt::shuffle_up(simt::all_lanes, lane, 3) == (lane < 3 ? lane : lane - 3));
      expect(simt::shuffle_down(simt::all_lanes, lane, 30) == (lane < 2 ? lane + 30 : lane));
      expect(simt::shuffle_xor(simt::all_lanes, std::uint64_t{lane} << 40, 5) == std::uint64_t{lane ^ 5} << 40);
      expect(simt::match_any(mine, lane / 4) == (0xfu << lane / 4 * 4 & mine));
      expect(simt::reduce_add(mine, lane) == (lane % 2 != 0 ? 256u : 240u));
      expect(simt::reduce_min(mine, lane + 5) == lane % 2 + 5 && simt::reduce_max(mine, lane) == lane % 2 + 30);
      expect(simt::reduce_or(mine, 1u << lane) == mine && simt::reduce_and(mine, ~(1u << lane)) == ~mine);
      simt::sync_warp(simt::all_lanes);
    });
    EXPECT_EQ(bad, 0u);
  });
}

TEST(Warp, PartialWarpsWork) {
  under_all_schedulers([] {
    unsigned sum = 0;
    run(45, [&](unsigned i) {
      simt::lane_mask const here = i < 32 ? simt::all_lanes : 0x1fff;
      if (simt::reduce_add(here, 1) == (i < 32 ? 32u : 13u)) simt::atomic_ref<unsigned>(sum).fetch_add(1, simt::relaxed);
    });
    EXPECT_EQ(sum, 45u);
  });
}

TEST(Warp, ALaneMayMeetOneGroupWhileAnotherWaitsForIt) {
  under_all_schedulers([] {
    tally bad;
    run(32, [&](unsigned i) {
      if (i > 2) return;
      // Lane 1 is in both pairs, and goes to the upper one first.
      if (i != 0) bad += simt::reduce_add(0b110, i) != 3;
      if (i != 2) bad += simt::reduce_add(0b011, i) != 1;
    });
    EXPECT_EQ(bad, 0u);
  });
}

TEST(Warp, DisjointGroupsDoNotWaitForEachOther) {
  under_all_schedulers([] {
    unsigned rounds = 0;
    run(32, [&](unsigned i) {
      simt::lane_mask const mine = i < 16 ? 0xffff : 0xffff0000;
      for (unsigned k = 0; k < (i < 16 ? 3u : 50u); ++k) {
        if (simt::reduce_add(mine, 1) == 16) simt::atomic_ref<unsigned>(rounds).fetch_add(1, simt::relaxed);
      }
    });
    EXPECT_EQ(rounds, 16u * 53);
  });
}

TEST(ActiveMask, IsOneAnswerForAllOfItsLanes) {
  under_all_schedulers([] {
    std::vector<simt::lane_mask> seen(256);
    run(256, [s = seen.data()](unsigned i) {
      if (i % 3 == 0) return;
      s[i] = simt::active_mask();
      if (simt::ballot(s[i], true) != s[i]) s[i] = 0;
    });
    for (unsigned i = 0; i < 256; ++i) {
      if (i % 3 == 0) continue;
      EXPECT_NE(seen[i] >> i % 32 & 1, 0u);
      for (unsigned j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
        EXPECT_TRUE((seen[i] >> j % 32 & 1) == 0 || seen[j] == seen[i]);
      }
    }
  });
}

TEST(ActiveMask, ConvergesWhenTheScheduleIsRegular) {
  for (simulator::scheduler_kind kind : {simulator::scheduler_kind::run_through, simulator::scheduler_kind::round_robin}) {
    simulator::scoped_settings const scope(with(kind));
    tally wrong;
    unsigned word = 0;
    run(320, [&](unsigned i) {
      simt::lane_mask expected = simt::all_lanes;
      if (i % 2 != 0) {
        // Longer way to the same line.
        for (unsigned k = 0; k < i % 7; ++k) simt::atomic_ref<unsigned>(word).fetch_add(1, simt::relaxed);
      }
      if (i % 32 == 5) return;
      expected &= ~(1u << 5);
      wrong += simt::active_mask() != expected;
    });
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(ActiveMask, IsSometimesPartialUnderRandomSchedules) {
  std::set<simt::lane_mask> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    simulator::scoped_settings const scope(with(simulator::scheduler_kind::random, seed));
    std::vector<simt::lane_mask> masks(32);
    run(32, [m = masks.data()](unsigned i) { m[i] = simt::active_mask(); });
    seen.insert(masks.begin(), masks.end());
  }
  EXPECT_TRUE(seen.count(simt::all_lanes));
  EXPECT_GT(seen.size(), 5u);
}

TEST(ActiveMask, DoesNotWaitForALaneThatSpins) {
  under_all_schedulers([] {
    unsigned flag = 0, other = 0;
    run(32, [&](unsigned i) {
      if (i == 0) {
        simt::back_off pause;
        // Ends: lane 1 sets the flag. It is let go from active_mask() although this lane can always run.
        while (simt::atomic_ref<unsigned>(flag).load(simt::acquire) == 0) pause.wait();
      } else {
        simt::lane_mask const here = simt::active_mask();
        if (simt::lane_id() == simt::lowest_bit(here)) simt::atomic_ref<unsigned>(flag).store(1, simt::release);
        simt::atomic_ref<unsigned>(other).fetch_add(1, simt::relaxed);
      }
    });
    EXPECT_EQ(other, 31u);
  });
}

// ---- misuse

TEST(WarpMisuse, AMaskWithoutTheCaller) {
  under_all_schedulers([] {
    std::string const text = failure_of(failure_kind::misuse, [] {
      run(32, [](unsigned i) {
        if (i == 3) (void)simt::ballot(1, true);
      });
    });
    EXPECT_CONTAINS(text, "block 0 warp 0 lane 3 calls ballot(mask 0x00000001) at warp_test.cpp:");
    EXPECT_CONTAINS(text, "a mask without the caller");
  });
}

TEST(WarpMisuse, AMaskThatNamesAnExitedLane) {
  under_all_schedulers([] {
    std::string const text = failure_of(failure_kind::misuse, [] {
      run(64, [](unsigned i) {
        if (i == 40) return;
        (void)simt::shuffle(simt::all_lanes, i, 0);
      });
    });
    EXPECT_CONTAINS(text, "exited");
    EXPECT_CONTAINS(text, "shuffle(mask 0xffffffff) at warp_test.cpp:");
  });
}

TEST(WarpMisuse, AMaskThatNamesLanesBeyondAPartialWarp) {
  std::string const text = failure_of(failure_kind::misuse, [] { run(40, [](unsigned) { simt::sync_warp(simt::all_lanes); }); });
  EXPECT_CONTAINS(text, "lanes 8-31: they do not exist in this warp");
}

TEST(WarpMisuse, DifferentMasks) {
  under_all_schedulers([] {
    (void)failure_of(failure_kind::misuse, [] { run(32, [](unsigned i) { simt::sync_warp(i < 16 ? simt::all_lanes : 0xffff0000); }); });
  });
}

TEST(WarpMisuse, DifferentOperations) {
  std::string const text = failure_of(failure_kind::misuse, [] {
    run(32, [](unsigned i) {
      if (i % 2 == 0) {
        (void)simt::ballot(simt::all_lanes, true);
      } else {
        simt::sync_warp(simt::all_lanes);
      }
    });
  });
  EXPECT_CONTAINS(text, "waits in");
}

TEST(WarpMisuse, AShuffleFromOutsideTheMask) {
  std::string const text = failure_of(failure_kind::misuse, [] {
    run(32, [](unsigned i) {
      if (i < 8) (void)simt::shuffle(0xff, i, 9);
    });
  });
  EXPECT_CONTAINS(text, "source lane 9, which is not in the mask");
}

}  // namespace
}  // namespace test
