// Blocks on several OS threads.
#include <gpuheap_simulator/launch.hpp>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

simulator::settings parallel(unsigned threads) {
  simulator::settings s;
  s.threads = threads;
  s.num_sms = 8;
  return s;
}

TEST(Parallel, EveryThreadRunsOnce) {
  for (unsigned threads : {2u, 3u, 8u, 0u}) {
    simulator::scoped_settings const scope(parallel(threads));
    std::uint64_t sum = 0;
    std::vector<unsigned> count(20'000);
    run(20'000, [&, c = count.data()](unsigned i) {
      ++c[i];
      simt::atomic_ref<std::uint64_t>(sum).fetch_add(i, simt::relaxed);
    });
    EXPECT_EQ(sum, 20'000ull * 19'999 / 2);
    for (unsigned const n : count) ASSERT_EQ(n, 1u);
    EXPECT_EQ(simulator::last_run().lanes, 20'000u);
  }
}

TEST(Parallel, WarpsBlocksAndMultiprocessorsAreWhole) {
  simulator::scoped_settings const scope(parallel(3));
  unsigned bad = 0;
  std::vector<unsigned> seen(64 * 128);
  std::vector<unsigned> sm(64);
  run(
      64 * 128,
      [&, s = seen.data(), m = sm.data()](unsigned i) {
        s[i] = simt::reduce_add(simt::all_lanes, 1);
        simt::sync_block();
        bool const right = s[i / 128 * 128 + (i + 1) % 128] == 32 && simt::sm_id() < 8;
        if (!right) simt::atomic_ref<unsigned>(bad).fetch_add(1, simt::relaxed);
        if (simt::thread_in_block() == 0) m[simt::block_id()] = simt::sm_id();
      },
      128);
  EXPECT_EQ(bad, 0u);
  EXPECT_LT(*std::max_element(sm.begin(), sm.end()), 8u);
}

TEST(Parallel, BlocksCanWaitForEachOther) {
  simulator::scoped_settings const scope(parallel(2));
  unsigned flag = 0, got = 0;
  run_two(
      [&] {
        simt::back_off pause;
        while (simt::atomic_ref<unsigned>(flag).load(simt::acquire) == 0) pause.wait();
        got = 1;
      },
      [&] { simt::atomic_ref<unsigned>(flag).store(1, simt::release); });
  EXPECT_EQ(got, 1u);
}

TEST(Parallel, AFailureEndsAllMachines) {
  simulator::settings s = parallel(2);
  s.step_budget = 100'000'000;
  simulator::scoped_settings const scope(s);
  unsigned flag = 0;
  std::string const text = failure_of(simulator::failure_kind::trap, [&] {
    run_two(
        [&] {
          simt::back_off pause;
          // Never ends by itself: the other block's failure ends the kernel.
          while (simt::atomic_ref<unsigned>(flag).load(simt::acquire) == 0) pause.wait();
        },
        [&] { simt::trap(); });
  });
  EXPECT_CONTAINS(text, "not replayable");
  unsigned count = 0;
  run(1000, [&](unsigned) { simt::atomic_ref<unsigned>(count).fetch_add(1, simt::relaxed); });
  EXPECT_EQ(count, 1000u);
}

TEST(Parallel, SixteenBytesChangeTogether) {
  if (!simt::has_atomic_16()) GTEST_SKIP() << "exchanges of 16 bytes: this processor has none: use a processor with cmpxchg16b";
  simulator::scoped_settings const scope(parallel(2));
  simt::pair64 pair{0, 0};
  run(2000, [&](unsigned) {
    simt::pair64 seen{0, 0};
    // Ends: lock-free; a pass fails only if another thread's has succeeded.
    while (!simt::compare_exchange_16(pair, seen, {seen.low + 1, seen.high + 2})) {
    }
  });
  EXPECT_EQ(pair.low, 2000u);
  EXPECT_EQ(pair.high, 4000u);
}

TEST(Parallel, HostThreadsHaveMachinesOfTheirOwn) {
  unsigned total = 0;
  std::vector<std::thread> hosts;
  for (int h = 0; h < 3; ++h) {
    hosts.emplace_back([&] { run(3000, [&](unsigned) { simt::atomic_ref<unsigned>(total).fetch_add(1, simt::relaxed); }); });
  }
  for (std::thread& t : hosts) t.join();
  EXPECT_EQ(total, 9000u);
}

}  // namespace
}  // namespace test
