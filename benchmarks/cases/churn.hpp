// churn: every thread keeps four blocks of random sizes alive and replaces the oldest again and again, all in one kernel, checking the
// contents of each before it gives it back. Mallocs and frees of all threads mix, as in a program that uses the heap for its working data.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/launch.hpp>

#include <string>
#include <utility>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/pace.hpp"
#include "harness/random.hpp"
#include "harness/tagged_blocks.hpp"

namespace gpuheap::bench {

// One thread of churn: `rounds` requests, and four more passes that give the last blocks back.
template <class Ref>
struct churn_blocks {
  static constexpr unsigned live_blocks = 4;

  tagged_blocks<Ref> blocks;
  unsigned rounds;

  [[nodiscard]] GPUHEAP_FN auto request(unsigned thread, unsigned pass) const {
    return blocks.request(simt::uint64_t{thread} * rounds + pass);
  }

  GPUHEAP_FN void operator()(unsigned thread) const {
    simt::uint64_t* live[live_blocks] = {};  // the oldest first
    for (unsigned pass = 0; pass < rounds + live_blocks; ++pass) {
      if (live[0] != nullptr) blocks.deallocate(live[0], request(thread, pass - live_blocks));
      // The indices are constants, so that the pointers stay in registers.
      for (unsigned i = 0; i + 1 < live_blocks; ++i) live[i] = live[i + 1];
      live[live_blocks - 1] = pass < rounds ? blocks.take(request(thread, pass)) : nullptr;
    }
  }
};

struct churn {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "1024", tagged_smallest_bytes, 1u << 20),
      number_parameter("rounds", "16", 1, 1u << 16),
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "churn",
      .brief = "every thread keeps four blocks of random sizes from 16 bytes up and replaces the oldest in each round, in one kernel",
      .section = "Mixed use",
      .parameters = parameters,
  };

  // Without reuse the whole traffic has to fit: rounds x threads requests of the mean size, each with up to 32 bytes of rounding and
  // header.
  static std::uint64_t traffic_bytes(point const& p) {
    return p.number("threads") * p.number("rounds") * ((tagged_smallest_bytes + p.number("bytes")) / 2 + 32);
  }

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
    constexpr bool never_frees = A::traits.free == frees::never;
    std::string const too_much = "this allocator never reuses freed memory: the traffic of about " +
                                 memory::format_bytes(traffic_bytes(p)) + " does not fit into a heap of " +
                                 memory::format_bytes(s.heap_bytes);
    if (A::traits.overwrites && traffic_bytes(p) > s.heap_bytes) return unsupported(too_much);

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    kernel_timer timer(stream);
    device_array<block_tally> tally(1);
    row kernel_us{"kernel_us", "us", {}}, failed_requests{"failed_requests", "count", {}};

    pace const timing(s);
    // Launch 0 checks whole blocks and is not counted; neither is launch 1, which warms up.
    for (unsigned n = 0; !timing.enough(kernel_us.samples.size()); ++n) {
      if (auto reason = timing.too_slow_after(n, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
      if (never_frees && n != 0) heap.renew();
      tally.zero(stream);
      churn_blocks<typename heap_under_test<A>::ref_type> const kernel{
          .blocks = {.heap = heap.ref(),
                     .random = random_sequence{s.seed, n},
                     .largest = static_cast<simt::uint32_t>(p.number("bytes")),
                     .whole_contents = n == 0,
                     .tally = tally.data()},
          .rounds = static_cast<unsigned>(p.number("rounds")),
      };
      double const us = timer.time_us([&] { launch(p.threads(), kernel, {.block_threads = p.block_threads(), .stream = stream}); });
      auto const counted = tally.download(stream)[0];
      if (auto fault = counted.fault(); !fault.empty()) return wrong(std::move(fault));
      if (never_frees && counted.failed_requests != 0) return unsupported(too_much);
      if (n < 2) continue;
      kernel_us.samples.push_back(us);
      failed_requests.samples.push_back(static_cast<double>(counted.failed_requests));
    }
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(failed_requests)}};
  }
};

}  // namespace gpuheap::bench
