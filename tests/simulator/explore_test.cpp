// Exploration by seed: the runs of a seed, the reports, and the replay of a failing seed.
#include <gpuheap/simt/explore.hpp>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

using simulator::scheduler_kind;

TEST(Explore, RunsEverySeedHalfOfThemWeak) {
  unsigned weak = 0;
  std::set<scheduler_kind> kinds;
  simulator::exploration const e = simt::explore(40, [&] {
    weak += simulator::current_settings().weak;
    kinds.insert(simulator::current_settings().scheduler);
  });
  EXPECT_TRUE(e);
  EXPECT_EQ(e.num_runs, 40u);
  EXPECT_EQ(weak, 20u);
  EXPECT_EQ(kinds.size(), 4u);
}

TEST(Explore, StopsAtTheFirstFailure) {
  unsigned runs = 0;
  simulator::exploration const e = simulator::explore(40, [&] { return ++runs < 13; });
  EXPECT_FALSE(e);
  EXPECT_EQ(e.seed, 12u);
  EXPECT_EQ(e.num_runs, 13u);
  EXPECT_CONTAINS(e.what, "seed 12: the test's own check failed");
  EXPECT_CONTAINS(e.what, "replay: GPUHEAP_SIMULATOR_REPLAY=12");
}

TEST(Explore, ReportsWhatTheBodyThrows) {
  simulator::exploration const e = simulator::explore(40, [] {
    run(64, [](unsigned i) {
      if (i == 9) simt::trap();
    });
  });
  EXPECT_CONTAINS(e.what, "seed 0: simulated kernel: block 0 warp 0 lane 9 called trap()");
  EXPECT_CONTAINS(e.what, "schedule: GPUHEAP_SIMULATOR_SCHEDULER=round_robin GPUHEAP_SIMULATOR_SEED=0 GPUHEAP_SIMULATOR_WEAK=0");
}

TEST(Explore, AFailingSeedFailsAgainByItselfOrByItsSettings) {
  auto const body = [] {
    unsigned count = 0;
    run(
        4,
        [&](unsigned) {
          simt::atomic_ref<unsigned>(count).store(simt::atomic_ref<unsigned>(count).load(simt::relaxed) + 1, simt::relaxed);
        },
        1);
    return count == 4 || simulator::current_settings().seed < 10;
  };
  simulator::exploration const e = simulator::explore(100, body);
  ASSERT_TRUE(e.failed);
  for (int k = 0; k < 3; ++k) {
    simulator::scoped_settings const scope(simulator::settings_of_seed(e.seed));
    EXPECT_FALSE(body());
  }
  setenv("GPUHEAP_SIMULATOR_REPLAY", std::to_string(e.seed).c_str(), 1);
  simulator::exploration const again = simulator::explore(1, body);
  unsetenv("GPUHEAP_SIMULATOR_REPLAY");
  EXPECT_TRUE(again.failed);
  EXPECT_EQ(again.seed, e.seed);
  EXPECT_EQ(again.num_runs, 1u);
}

TEST(Explore, BeginsWithTheSeedOfTheEnvironment) {
  setenv("GPUHEAP_SIMULATOR_FIRST_SEED", "1000", 1);
  std::vector<std::uint64_t> seeds;
  EXPECT_TRUE(simulator::explore(3, [&] { seeds.push_back(simulator::current_settings().seed); }));
  unsetenv("GPUHEAP_SIMULATOR_FIRST_SEED");
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{1000, 1001, 1002}));
}

TEST(Explore, RefusesASeedThatIsNone) {
  setenv("GPUHEAP_SIMULATOR_REPLAY", "last", 1);
  EXPECT_THROW((void)simulator::explore(1, [] {}), std::invalid_argument);
  unsetenv("GPUHEAP_SIMULATOR_REPLAY");
}

}  // namespace
}  // namespace test
