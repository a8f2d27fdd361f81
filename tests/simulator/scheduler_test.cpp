// The four schedulers: their orders, and that a seed replays a run exactly.
#include <set>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

using simulator::scheduler_kind;

// The order in which `num_threads` threads pass `points` scheduling points each.
std::vector<unsigned> trace(simulator::settings const& s, unsigned num_threads, unsigned points, unsigned block_threads = 32) {
  simulator::scoped_settings const scope(s);
  std::vector<unsigned> order(num_threads * points);
  tally passed;
  unsigned word = 0;
  run(
      num_threads,
      [&, o = order.data()](unsigned i) {
        for (unsigned k = 0; k < points; ++k) {
          simt::atomic_ref<unsigned>(word).fetch_add(1, simt::relaxed);
          o[(passed += 1) - 1] = i;
        }
      },
      block_threads);
  return order;
}

TEST(RoundRobin, SwitchesAtEveryPoint) {
  EXPECT_EQ(trace(with(scheduler_kind::round_robin), 3, 3), (std::vector<unsigned>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(RunThrough, LetsALaneRunToItsEnd) {
  EXPECT_EQ(trace(with(scheduler_kind::run_through), 3, 3), (std::vector<unsigned>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
}

TEST(RunThrough, LosesPatienceWithALaneThatRunsOnAndOn) {
  simulator::settings s = with(scheduler_kind::run_through);
  s.patience = 4;
  std::vector<unsigned> const order = trace(s, 2, 10);
  EXPECT_EQ(order[2], 0u);
  EXPECT_EQ(order[4], 1u);
}

TEST(AllSchedulers, ReplayBySeed) {
  for (scheduler_kind kind : all_schedulers) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      for (bool weak : {false, true}) {
        simulator::settings const s = with(kind, seed, weak);
        SCOPED_TRACE(simulator::as_environment(s));
        EXPECT_EQ(trace(s, 300, 6), trace(s, 300, 6));
      }
    }
  }
}

TEST(AllSchedulers, LaunchesOfOneScopeDiffer) {
  simulator::scoped_settings const scope(with(scheduler_kind::random, 3));
  auto const once = [] {
    std::vector<unsigned> order(64);
    tally passed;
    unsigned word = 0;
    run(64, [&, o = order.data()](unsigned i) {
      simt::atomic_ref<unsigned>(word).fetch_add(1, simt::relaxed);
      o[(passed += 1) - 1] = i;
    });
    return order;
  };
  EXPECT_NE(once(), once());
}

TEST(SeededSchedulers, DifferBySeed) {
  for (scheduler_kind kind : {scheduler_kind::random, scheduler_kind::pct}) {
    std::set<std::vector<unsigned>> orders;
    for (std::uint64_t seed = 0; seed < 20; ++seed) orders.insert(trace(with(kind, seed), 8, 5, 4));
    EXPECT_GT(orders.size(), 17u);
  }
}

TEST(Random, ReachesEveryInterleaving) {
  // Two threads of three points: 20 orders.
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) orders.insert(trace(with(scheduler_kind::random, seed), 2, 3, 1));
  EXPECT_EQ(orders.size(), 20u);
}

TEST(Pct, ADepthOfOneHasNoDrops) {
  simulator::settings s = with(scheduler_kind::pct);
  s.depth = 1;
  std::set<std::vector<unsigned>> orders;
  for (s.seed = 0; s.seed < 100; ++s.seed) orders.insert(trace(s, 3, 4, 1));
  EXPECT_EQ(orders.size(), 6u);  // who comes first, second, third: each runs to its end
}

TEST(Pct, FindsAnOrderOfDepthTwo) {
  // Thread 0 must be stopped at one of its points while thread 1 runs as a whole.
  unsigned found = 0;
  simulator::settings s = with(scheduler_kind::pct);
  s.depth = 2;
  for (s.seed = 0; s.seed < 400; ++s.seed) {
    simulator::scoped_settings const scope(s);
    unsigned word = 0, inside = 0;
    run(
        2,
        [&](unsigned i) {
          simt::atomic_ref<unsigned> const w(word);
          if (i == 0) {
            for (unsigned k = 0; k < 5; ++k) w.fetch_add(1, simt::relaxed);
          } else {
            unsigned const before = w.load(simt::relaxed);
            for (unsigned k = 0; k < 5; ++k) w.fetch_add(16, simt::relaxed);
            inside = before;
          }
        },
        1);
    found += inside == 3;
  }
  EXPECT_GT(found, 0u);
}

TEST(BackOff, LetsOthersRun) {
  under_all_schedulers([] {
    unsigned flag = 0, waited = 0;
    run(64, [&](unsigned i) {
      simt::back_off pause;
      if (i == 63) {
        simt::atomic_ref<unsigned>(flag).store(1, simt::release);
      } else {
        while (simt::atomic_ref<unsigned>(flag).load(simt::acquire) == 0) pause.wait();
        simt::atomic_ref<unsigned>(waited).fetch_add(1, simt::relaxed);
      }
    });
    EXPECT_EQ(waited, 63u);
    EXPECT_LT(simulator::last_run().points, 100'000u);
  });
}

TEST(Statistics, CountPoints) {
  simulator::scoped_settings const scope(with(scheduler_kind::random, 1));
  unsigned word = 0;
  run(100, [&](unsigned) {
    for (unsigned k = 0; k < 7; ++k) simt::atomic_ref<unsigned>(word).fetch_add(1, simt::relaxed);
    (void)simt::ballot(simt::lane_id() < 4 && simt::thread_in_block() >= 96 ? 0xfu : simt::all_lanes, true);
  });
  EXPECT_EQ(simulator::last_run().lanes, 100u);
  EXPECT_EQ(simulator::last_run().points, 800u);
}

}  // namespace
}  // namespace test
