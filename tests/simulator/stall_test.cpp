// A warp that stops for long: where, for how long, and that a run of it replays.
#include <gpuheap_simulator/launch.hpp>

#include <cstdlib>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

simulator::settings stopping(simulator::settings s, unsigned warp, std::uint64_t at, std::uint64_t points) {
  s.stopped = {warp, at, points};
  return s;
}

// The order in which threads of two blocks pass five points each.
std::vector<unsigned> order_of(simulator::settings const& s, unsigned num_threads, unsigned block_threads) {
  simulator::scoped_settings const scope(s);
  std::vector<unsigned> order(num_threads * 5);
  tally passed;
  unsigned word = 0;
  run(
      num_threads,
      [&, o = order.data()](unsigned i) {
        for (unsigned k = 0; k < 5; ++k) {
          simt::atomic_ref<unsigned>(word).fetch_add(1, simt::relaxed);
          o[(passed += 1) - 1] = i;
        }
      },
      block_threads);
  return order;
}

TEST(Stall, TheWarpGoesOnWhenNothingElseCanRun) {
  for (simulator::scheduler_kind kind : all_schedulers) {
    auto const order = order_of(stopping(with(kind), 1, 3, simulator::stall::ever_after), 96, 32);
    ASSERT_TRUE(simulator::last_run().stalled);
    // Three points of warp 1, then all that is left of the others, then the rest of it.
    unsigned of_warp_1 = 0;
    for (std::size_t i = 0; i + (5 * 32 - 3) < order.size(); ++i) of_warp_1 += order[i] / 32 == 1 ? 1 : 0;
    EXPECT_EQ(of_warp_1, 3u) << simulator::name_of(kind);
  }
}

TEST(Stall, TheWarpGoesOnAfterSoManyPoints) {
  auto const order = order_of(stopping(with(simulator::scheduler_kind::round_robin), 1, 0, 40), 64, 32);
  // A round gives each of the 32 others a point: the first of the stopped warp comes after 40 of them.
  std::size_t first = 0;
  while (order[first] / 32 != 1) ++first;
  EXPECT_GE(first, 39u);
  EXPECT_LE(first, 75u);
}

TEST(Stall, NoWarpStopsAtAPointThatItDoesNotReach) {
  (void)order_of(stopping(with(simulator::scheduler_kind::round_robin), 1, 5 * 32, 1000), 64, 32);
  EXPECT_FALSE(simulator::last_run().stalled);
  (void)order_of(stopping(with(simulator::scheduler_kind::round_robin), 1, 5 * 32 - 1, 1000), 64, 32);
  EXPECT_TRUE(simulator::last_run().stalled);
}

TEST(Stall, ReplaysBySettings) {
  for (simulator::scheduler_kind kind : all_schedulers) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      auto const s = stopping(with(kind, seed, seed % 2 != 0), 2, 17, 500);
      EXPECT_EQ(order_of(s, 200, 64), order_of(s, 200, 64));
    }
  }
}

TEST(Stall, AThreadThatWaitsForAStoppedWarpIsALivelock) {
  auto s = stopping(with(simulator::scheduler_kind::round_robin), 0, 0, simulator::stall::ever_after);
  s.step_budget = 100'000;
  simulator::scoped_settings const scope(s);
  unsigned flag = 0;
  auto const set = [&] { simt::atomic_ref<unsigned>(flag).store(1, simt::release); };
  auto const wait = [&] {
    while (simt::atomic_ref<unsigned>(flag).load(simt::acquire) == 0) simt::back_off{}.wait();
  };
  try {
    run_two(set, wait);
    FAIL() << "nobody sets the flag";
  } catch (simt::kernel_failure const& failed) {
    EXPECT_EQ(failed.kind(), simulator::failure_kind::livelock);
    EXPECT_NE(std::string{failed.what()}.find("GPUHEAP_SIMULATOR_STALL=0:0:ever"), std::string::npos) << failed.what();
    EXPECT_NE(std::string{failed.what()}.find("block 0 warp 0 lanes 0 stand still before store"), std::string::npos) << failed.what();
  }
}

TEST(Stall, ComesFromTheEnvironment) {
  auto const read = [](char const* text) {
    setenv("GPUHEAP_SIMULATOR_STALL", text, 1);
    try {
      auto const s = simulator::settings_from_environment();
      unsetenv("GPUHEAP_SIMULATOR_STALL");
      return s.stopped;
    } catch (...) {
      unsetenv("GPUHEAP_SIMULATOR_STALL");
      throw;
    }
  };
  EXPECT_EQ(read("3:40:10000"), (simulator::stall{3, 40, 10000}));
  EXPECT_EQ(read("0:7:ever"), (simulator::stall{0, 7, simulator::stall::ever_after}));
  for (char const* wrong : {"3", "3:4", "3:4:", "a:4:5", "3:4:5x", "3:-4:5", "3:4:5:6"})
    EXPECT_THROW((void)read(wrong), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace test
