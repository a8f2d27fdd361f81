// The block barrier, and the ends of kernels that cannot go on: deadlock, livelock, trap.
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

using simulator::failure_kind;

TEST(Barrier, HoldsTheBlockTogether) {
  under_all_schedulers([] {
    constexpr unsigned num_threads = 600, block_threads = 200, rounds = 5;
    std::vector<unsigned> arrived(3 * rounds);
    tally early;
    run(
        num_threads,
        [&, a = arrived.data()](unsigned) {
          for (unsigned r = 0; r < rounds; ++r) {
            unsigned& count = a[simt::block_id() * rounds + r];
            simt::atomic_ref<unsigned>(count).fetch_add(1, simt::relaxed);
            simt::sync_block();
            early += simt::atomic_ref<unsigned>(count).load(simt::relaxed) != block_threads;
          }
        },
        block_threads);
    EXPECT_EQ(early, 0u);
  });
}

TEST(Barrier, APartialBlockIsWhole) {
  tally passed;
  run(300, [&](unsigned) {
    simt::sync_block();
    passed += 1;
  });
  EXPECT_EQ(passed, 300u);
}

TEST(Barrier, NotReachedByAThreadThatExits) {
  under_all_schedulers([] {
    std::string const text = failure_of(failure_kind::misuse, [] {
      run(64, [](unsigned i) {
        if (i != 7) simt::sync_block();
      });
    });
    EXPECT_CONTAINS(text, "sync_block() at barrier_test.cpp:");
    EXPECT_CONTAINS(text, "exited");
  });
}

TEST(Barrier, OfTheLivingDoesNotWaitForThoseThatExit) {
  under_all_schedulers([] {
    constexpr unsigned num_threads = 300, block_threads = 200, rounds = 4;
    std::vector<unsigned> arrived(2 * rounds);
    tally early;
    // Some never come, others leave after a round or two: while the rest wait, or before.
    auto const comes = [](unsigned i, unsigned round) { return i % 5 != 0 && (i % 7 != 3 || round < 2); };
    run(
        num_threads,
        [&, a = arrived.data()](unsigned i) {
          unsigned const threads = simt::block_id() == 0 ? 200 : 100, first = simt::block_id() * 200;
          for (unsigned r = 0; r < rounds && comes(i, r); ++r) {
            unsigned& count = a[simt::block_id() * rounds + r];
            simt::atomic_ref<unsigned>(count).fetch_add(1, simt::relaxed);
            simt::sync_living_block();
            unsigned all = 0;
            for (unsigned k = first; k < first + threads; ++k) all += comes(k, r);
            early += simt::atomic_ref<unsigned>(count).load(simt::relaxed) != all;
          }
        },
        block_threads);
    EXPECT_EQ(early, 0u);
  });
}

TEST(Barrier, ReachedOnTwoLines) {
  std::string const text = failure_of(failure_kind::misuse, [] {
    run(64, [](unsigned i) {
      if (i < 32) {
        simt::sync_block();
      } else {
        simt::sync_block();
      }
    });
  });
  EXPECT_CONTAINS(text, "threads of its block wait in sync_block() at barrier_test.cpp:");
}

TEST(Deadlock, SaysWhoWaitsWhere) {
  under_all_schedulers([] {
    std::string const text = failure_of(failure_kind::deadlock, [] {
      run(64, [](unsigned i) {
        if (i >= 4 && i < 32) {
          simt::sync_warp(simt::all_lanes);
        } else {
          simt::sync_block();
        }
      });
    });
    EXPECT_CONTAINS(text, "deadlock: no thread can run");
  });
}

TEST(Deadlock, NamesLanesMaskAndLine) {
  std::string const text = failure_of(failure_kind::deadlock, [] {
    run(64, [](unsigned i) {
      if (i < 3) {
        simt::sync_warp(0xf);
      } else if (i > 3 && i < 31) {
        (void)simt::ballot(simt::all_lanes & ~0xfu, true);
      } else {
        simt::sync_block();
      }
    });
  });
  EXPECT_CONTAINS(text, "  block 0 warp 0 lanes 0-2 wait in sync_warp(mask 0x0000000f) at barrier_test.cpp:");
  EXPECT_CONTAINS(text, "  schedule: GPUHEAP_SIMULATOR_SCHEDULER=");
}

TEST(Livelock, EndsWhenTheStepBudgetIsSpent) {
  for (simulator::scheduler_kind kind : all_schedulers) {
    simulator::settings s = with(kind);
    s.step_budget = 100'000;
    simulator::scoped_settings const scope(s);
    unsigned flag = 0;
    std::string const text = failure_of(failure_kind::livelock, [&] {
      run(40, [&](unsigned i) {
        if (i == 33) return;
        simt::back_off pause;
        // Never ends: nobody sets the flag.
        while (simt::atomic_ref<unsigned>(flag).load(simt::relaxed) == 0) pause.wait();
      });
    });
    EXPECT_CONTAINS(text, "livelock: 1");
    EXPECT_CONTAINS(text, "can run, next ");
    EXPECT_CONTAINS(text, "barrier_test.cpp:");
  }
}

TEST(Livelock, IsNoneWhileThreadsFinish) {
  simulator::settings s = with(simulator::scheduler_kind::round_robin);
  s.step_budget = 5'000;
  simulator::scoped_settings const scope(s);
  unsigned count = 0;
  run(20'000, [&](unsigned) { simt::atomic_ref<unsigned>(count).fetch_add(1, simt::relaxed); });
  EXPECT_EQ(count, 20'000u);
}

// A lock that a thread waits for without backing off: every scheduler lets the owner go on in the end.
TEST(Livelock, ASpinWithoutBackOffIsNone) {
  under_all_schedulers([] {
    unsigned lock = 0, total = 0;
    run(
        24,
        [&](unsigned) {
          unsigned expected = 0;
          while (!simt::atomic_ref<unsigned>(lock).compare_exchange(expected, 1, simt::acquire, simt::relaxed)) expected = 0;
          ++total;
          simt::atomic_ref<unsigned>(lock).store(0, simt::release);
        },
        8);
    EXPECT_EQ(total, 24u);
  });
}

TEST(Trap, EndsTheKernel) {
  std::string const text = failure_of(failure_kind::trap, [] {
    run(300, [](unsigned i) {
      if (i == 290) simt::trap();
    });
  });
  EXPECT_CONTAINS(text, "block 1 warp 1 lane 2 called trap() at barrier_test.cpp:");
}

}  // namespace
}  // namespace test
