// churn_long_lived: churn in which some blocks live to the end, so they always break up the free memory. Each round is a kernel: every
// thread takes a block of a random size and frees the one that it took four rounds before, unless that one lives long. The case shows
// whether the heap gets slower, and whether it spreads.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/random.hpp"
#include "harness/statistics.hpp"
#include "harness/tagged_blocks.hpp"

namespace gpuheap::bench {

// Owners: block n of `kept` is that of thread n % threads in round n / threads, nullptr once it is given back.
template <class Ref>
struct long_lived_blocks {
  static constexpr unsigned live_rounds = 4;  // that a block lives which does not live long

  tagged_blocks<Ref> blocks;
  random_sequence fate;
  simt::uint64_t** kept;
  unsigned threads;
  unsigned percent_long_lived;

  [[nodiscard]] GPUHEAP_FN simt::uint64_t number(unsigned thread, unsigned round) const { return simt::uint64_t{round} * threads + thread; }
  [[nodiscard]] GPUHEAP_FN bool lives_long(simt::uint64_t n) const { return fate.below(n, 100) < percent_long_lived; }
  GPUHEAP_FN void deallocate(simt::uint64_t n) const {
    if (kept[n] == nullptr) return;
    blocks.deallocate(kept[n], blocks.request(n));
    kept[n] = nullptr;
  }
};

// The timed kernel: one round of one thread.
template <class Ref>
struct long_lived_round {
  long_lived_blocks<Ref> owned;
  unsigned round;
  GPUHEAP_FN void operator()(unsigned thread) const {
    if (round >= owned.live_rounds) {
      auto const old = owned.number(thread, round - owned.live_rounds);
      if (!owned.lives_long(old)) owned.deallocate(old);
    }
    auto const n = owned.number(thread, round);
    owned.kept[n] = owned.blocks.take(owned.blocks.request(n));
  }
};

// Adds up what is live after `rounds` rounds.
template <class Ref>
struct sum_live_bytes {
  long_lived_blocks<Ref> owned;
  unsigned rounds;
  simt::uint64_t* sum;
  GPUHEAP_FN void operator()(unsigned thread) const {
    simt::uint64_t mine = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      auto const n = owned.number(thread, round);
      if (owned.kept[n] != nullptr) mine += owned.blocks.request(n).bytes;
    }
    // relaxed: a sum that the host reads after the kernel.
    simt::atomic_ref<simt::uint64_t>{*sum}.fetch_add(mine, simt::relaxed);
  }
};

// Gives everything back.
template <class Ref>
struct end_of_lives {
  long_lived_blocks<Ref> owned;
  unsigned rounds;
  GPUHEAP_FN void operator()(unsigned thread) const {
    for (unsigned round = 0; round < rounds; ++round) owned.deallocate(owned.number(thread, round));
  }
};

struct churn_long_lived {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "1024", tagged_smallest_bytes, 1u << 20),
      number_parameter("rounds", "100", 6, 10'000),
      number_parameter("long_lived", "5", 0, 100),  // percent of the blocks
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "churn_long_lived",
      .brief = "rounds of blocks of random sizes from 16 bytes up, some of which live to the end: times of rounds, and what the heap holds",
      .section = "Mixed use",
      .parameters = parameters,
  };

  static constexpr unsigned rounds_between_looks = 10;

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (A::traits.free == frees::never) return unsupported("this allocator never reuses freed memory");
    if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
    using ref = typename heap_under_test<A>::ref_type;
    auto const rounds = static_cast<unsigned>(p.number("rounds"));

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    kernel_timer timer(stream);
    device_array<simt::uint64_t*> kept(std::size_t{rounds} * p.threads());
    device_array<block_tally> tally(1);
    device_array<simt::uint64_t> live_bytes(1);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    row kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}}, footprint{"footprint_ratio", "ratio", {}},
        failed_requests{"failed_requests", "count", {}};

    // Run 0 checks whole blocks and is not counted.
    for (unsigned n = 0; n <= s.runs; ++n) {
      if (!A::traits.process_wide) heap.renew();
      kept.zero(stream);
      tally.zero(stream);
      long_lived_blocks<ref> const owned{
          .blocks = {.heap = heap.ref(),
                     .random = random_sequence{s.seed, 2 * n},
                     .largest = static_cast<simt::uint32_t>(p.number("bytes")),
                     .whole_contents = n == 0,
                     .tally = tally.data()},
          .fate = random_sequence{s.seed, 2 * n + 1},
          .kept = kept.data(),
          .threads = p.threads(),
          .percent_long_lived = static_cast<unsigned>(p.number("long_lived")),
      };
      std::vector<double> times;  // of the rounds that also give back
      for (unsigned round = 0; round < rounds; ++round) {
        double const us = timer.time_us([&] { launch(p.threads(), long_lived_round<ref>{owned, round}, config); });
        if (round >= owned.live_rounds) times.push_back(us);
        bool const look = (round + 1) % rounds_between_looks == 0 || round + 1 == rounds;
        if (n == 0 || !look) continue;
        auto const held = heap.footprint();
        if (!held) continue;
        live_bytes.zero(stream);
        launch(p.threads(), sum_live_bytes<ref>{owned, round + 1, live_bytes.data()}, config);
        footprint.samples.push_back(static_cast<double>(held->held_bytes) / static_cast<double>(live_bytes.download(stream)[0]));
      }
      launch(p.threads(), end_of_lives<ref>{owned, rounds}, config);
      auto const counted = tally.download(stream)[0];
      if (auto fault = counted.fault(); !fault.empty()) return wrong("run " + std::to_string(n) + ": " + fault);
      if (auto fault = heap.refused_frees(); !fault.empty()) return wrong("run " + std::to_string(n) + ": " + fault);
      if (n == 0) continue;
      slowdown.samples.push_back(last_over_first(times));
      failed_requests.samples.push_back(static_cast<double>(counted.failed_requests));
      kernel_us.samples.insert(kernel_us.samples.end(), times.begin(), times.end());
    }
    outcome result{outcome_status::ok, "", {std::move(kernel_us), std::move(slowdown), std::move(failed_requests)}};
    if (!footprint.samples.empty()) result.rows.push_back(std::move(footprint));
    return result;
  }

 private:
  // Medians over ten rounds at either end, fewer where there are not twenty.
  static double last_over_first(std::vector<double> const& times) {
    auto const some = static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(times.size() / 2, 1, 10));
    double const first = percentile({times.begin(), times.begin() + some}, 0.5);
    double const last = percentile({times.end() - some, times.end()}, 0.5);
    return last / first;
  }
};

}  // namespace gpuheap::bench
