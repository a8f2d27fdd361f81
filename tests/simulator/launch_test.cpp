// Kernels as blocks of warps: every thread runs once, knows its numbers, and its stack is reused.
#include <gpuheap_simulator/launch.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "kernels.hpp"

namespace test {
namespace {

TEST(Launch, EveryThreadRunsOnce) {
  under_all_schedulers([] {
    for (unsigned num_threads : {1u, 31u, 32u, 33u, 256u, 257u, 3000u}) {
      std::vector<unsigned> count(num_threads);
      run(num_threads, [c = count.data()](unsigned i) { ++c[i]; });
      EXPECT_EQ(std::count(count.begin(), count.end(), 1u), num_threads);
    }
  });
}

TEST(Launch, NoThreadsIsNothing) {
  run(0, [](unsigned) { FAIL(); });
}

TEST(Launch, ThreadsKnowTheirPlace) {
  under_all_schedulers([] {
    constexpr unsigned num_threads = 1000, block_threads = 96;
    std::vector<unsigned> bad(num_threads);
    run(
        num_threads,
        [b = bad.data()](unsigned i) {
          unsigned const in_block = i % block_threads, block = i / block_threads;
          bool const right = simt::lane_id() == in_block % 32 && simt::thread_in_block() == in_block &&
                             simt::threads_per_block() == block_threads && simt::block_id() == block && simt::num_blocks() == 11 &&
                             simt::global_warp() == block * 3 + in_block / 32;
          b[i] = !right;
        },
        block_threads);
    EXPECT_EQ(std::accumulate(bad.begin(), bad.end(), 0u), 0u);
  });
}

TEST(Launch, BlocksStartOnMultiprocessorsInTurn) {
  simulator::settings s = with(simulator::scheduler_kind::round_robin);
  s.num_sms = 5;
  simulator::scoped_settings const scope(s);
  std::vector<unsigned> sm(10);
  run(
      10, [m = sm.data()](unsigned i) { m[i] = simt::sm_id(); }, 1);
  for (unsigned block = 0; block < 10; ++block) EXPECT_EQ(sm[block], block % 5);
}

TEST(Launch, ResidencyIsLimited) {
  simulator::settings s = with(simulator::scheduler_kind::round_robin);
  s.num_sms = 2;
  s.blocks_per_sm = 2;
  simulator::scoped_settings const scope(s);
  tally here;
  unsigned most = 0;
  run(
      640,
      [&](unsigned) {
        unsigned const now = here += 1;
        unsigned turn = 0;
        for (int k = 0; k < 20; ++k) simt::atomic_ref<unsigned>(turn).fetch_add(1, simt::relaxed);
        simt::atomic_ref<unsigned>(most).fetch_max(now, simt::relaxed);
        here += ~0u;
      },
      32);
  EXPECT_EQ(most, 4u * 32u);
}

TEST(Launch, AMillionThreadsNeedFewStacks) {
  for (simulator::scheduler_kind kind : {simulator::scheduler_kind::run_through, simulator::scheduler_kind::round_robin}) {
    simulator::scoped_settings const scope(with(kind));
    auto const num_threads = static_cast<unsigned>(affordable(1'000'000));
    std::uint64_t sum = 0;
    run(num_threads, [&](unsigned i) { simt::atomic_ref<std::uint64_t>(sum).fetch_add(i, simt::relaxed); });
    EXPECT_EQ(sum, std::uint64_t{num_threads} * (num_threads - 1) / 2);
    EXPECT_EQ(simulator::last_run().lanes, num_threads);
    EXPECT_EQ(simulator::last_run().points, num_threads);
  }
}

TEST(Launch, ThreadsMayExitEarly) {
  under_all_schedulers([] {
    unsigned sum = 0;
    run(1000, [&](unsigned i) {
      if (i % 3 != 0) return;
      simt::atomic_ref<unsigned>(sum).fetch_add(1, simt::relaxed);
      if (i % 2 != 0) return;
      simt::atomic_ref<unsigned>(sum).fetch_add(1, simt::relaxed);
    });
    EXPECT_EQ(sum, 334u + 167u);
  });
}

TEST(Launch, LocalsKeepTheirValuesOverSwitches) {
  under_all_schedulers([] {
    tally bad;
    unsigned shared = 0;
    run(512, [&](unsigned i) {
      unsigned volatile local[64];
      for (unsigned k = 0; k < 64; ++k) {
        local[k] = i * 64 + k;
        simt::atomic_ref<unsigned>(shared).fetch_add(1, simt::relaxed);
      }
      for (unsigned k = 0; k < 64; ++k) bad += local[k] != i * 64 + k;
    });
    EXPECT_EQ(bad, 0u);
  });
}

TEST(Launch, AnExceptionOfDeviceCodeArrivesOnTheHost) {
  under_all_schedulers([] {
    unsigned steps = 0;
    auto const throwing = [&](unsigned i) {
      simt::atomic_ref<unsigned>(steps).fetch_add(1, simt::relaxed);
      if (i == 70) throw std::out_of_range("thread 70");
    };
    EXPECT_THROW(run(200, throwing), std::out_of_range);
    // The machine is whole: the abandoned stacks serve the next kernel.
    unsigned count = 0;
    run(5000, [&](unsigned) { simt::atomic_ref<unsigned>(count).fetch_add(1, simt::relaxed); });
    EXPECT_EQ(count, 5000u);
  });
}

TEST(Launch, RefusesWhatTheHardwareRefuses) {
  EXPECT_THROW(run(
                   1, [](unsigned) {}, 0),
               simt::error);
  EXPECT_THROW(run(
                   1, [](unsigned) {}, 1025),
               simt::error);
  EXPECT_THROW(run(1, [](unsigned) { run(1, [](unsigned) {}); }), std::logic_error);
  EXPECT_THROW((void)simt::lane_id(), std::logic_error);
}

TEST(Launch, ClocksAdvanceAndReplay) {
  auto const stamps = [] {
    simulator::scoped_settings const scope(with(simulator::scheduler_kind::random, 5));
    std::vector<std::uint64_t> at(100);
    run(100, [a = at.data()](unsigned i) {
      std::uint64_t const first = simt::clock_ns();
      // Ends: each reading of the clock advances it.
      while (simt::clock_ns() < first + 1000) {
      }
      a[i] = simt::clock_cycles();
    });
    return at;
  };
  std::vector<std::uint64_t> const once = stamps();
  EXPECT_EQ(once, stamps());
  EXPECT_GT(*std::min_element(once.begin(), once.end()), 0u);
}

TEST(Runtime, MemoryAndFacts) {
  void* const p = simt::allocate(simt::memory_kind::device, 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 256, 0u);
  simt::fill(p, 0x5a, 1000);
  unsigned char byte = 0;
  simt::copy(&byte, static_cast<char*>(p) + 999, 1);
  EXPECT_EQ(byte, 0x5a);
  simt::deallocate(simt::memory_kind::device, p);
  EXPECT_THROW((void)simt::allocate(simt::memory_kind::device, ~std::size_t{0} / 2), simt::out_of_memory);

  simt::device_info const info = simt::query_device();
  EXPECT_EQ(info.backend, "simulator");
  EXPECT_EQ(info.name, "simulated GPU (" + std::to_string(info.num_sms) + " SMs)");
  EXPECT_GT(info.total_bytes, info.free_bytes);
  EXPECT_GT(info.free_bytes, 0u);
  EXPECT_FALSE(simt::has_builtin_heap);

  simt::stream_ref const stream = simt::make_stream(), other = simt::make_stream();
  EXPECT_NE(stream.native, other.native);
  simt::synchronize(stream);
  simt::destroy_stream(stream);
  simt::destroy_stream(other);
}

}  // namespace
}  // namespace test
