// utilisation: the share of a heap, metadata included, that is in blocks when the first request fails. A block counts with its whole size,
// rounding included; the case fragmentation shows the loss by rounding. If an allocator leaves a share of the heap to another heap for
// large requests, `utilisation_of_own` is the utilisation without that share, as papers count it.
//
// The kernels make at most a quarter of the requests that are still expected, with many threads at first and one warp at the end, so that
// few requests are under way when the first one fails. An uncounted fill before shows how many requests to expect.
#pragma once

#include <gpuheap/allocator.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "cases/alloc_mixed.hpp"
#include "cases/alloc_single.hpp"
#include "harness/block_pile.hpp"

namespace gpuheap::bench {

struct utilisation {
  static constexpr parameter parameters[] = {
      threads_parameter,  // of the largest kernels
      number_parameter("bytes", "16", 4, simt::uint64_t{1} << 30),
      choice_parameter("dist", "equal", "equal|uniform"),  // uniform: from 4 bytes up
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "utilisation",
      .brief = "the share of the heap that is in blocks when the first request fails",
      .section = "Memory",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (A::traits.overwrites) return unsupported("this allocator overwrites live memory rather than refuse a request");
    auto const bytes = p.number("bytes");
    if (p.text("dist") == "equal") return fill<A>(s, p, equal_requests{p.threads(), bytes}, bytes);
    random_requests const random{p.threads(), static_cast<simt::uint32_t>(bytes), false, random_sequence{s.seed}, smallest_drawn};
    return fill<A>(s, p, random, (random.smallest + bytes) / 2);
  }

 private:
  template <class A, class Requests>
  static outcome fill(session const& s, point const& p, Requests const& requests, simt::uint64_t mean_bytes) {
    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    // A process-wide heap may have been granted more than was asked for.
    auto const capacity = pile_capacity(heap.bytes(), mean_bytes, p.threads());
    if (auto reason = why_no_pile(capacity); !reason.empty()) return unsupported(std::move(reason));
    block_checker checker(stream);
    block_pile<A, Requests> pile(heap, requests, capacity, {.block_threads = p.block_threads(), .stream = stream});
    row share{"utilisation", "ratio", {}};
    simt::uint64_t expected = s.heap_bytes;
    pace const timing(s);
    // Run 0 finds out what to expect, checks whole blocks, and is not counted.
    for (unsigned run = 0; run == 0 || !timing.enough(share.samples.size()); ++run) {
      pile_tally tally;
      while (tally.failed_requests == 0) {
        auto const to_come = expected > tally.live_bytes ? expected - tally.live_bytes : tally.live_bytes - expected;
        auto const next = std::clamp<simt::uint64_t>(to_come / 4 / mean_bytes, simt::warp_lanes, p.threads());
        if (next > pile.room()) return wrong("the allocator returned more blocks than fit into the heap");
        tally = pile.add(static_cast<unsigned>(next));
        double const filled = static_cast<double>(tally.live_bytes) / static_cast<double>(heap.bytes());
        if (auto reason = timing.too_slow(run + filled, static_cast<double>(timing.lacking(share.samples.size())) - filled + (run == 0));
            !reason.empty())
          return timed_out(std::to_string(static_cast<int>(100 * filled)) + " % of the heap were in blocks after " +
                           std::to_string(static_cast<int>(timing.seconds())) + " s: it " + reason);
      }
      if (auto fault = pile.fault(checker, run == 0, run); !fault.empty()) return wrong("run " + std::to_string(run) + ": " + fault);
      expected = tally.bytes_at_first_null;
      if (run != 0) share.samples.push_back(static_cast<double>(expected) / static_cast<double>(heap.bytes()));
      pile.deallocate();
      if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
      if (!A::traits.process_wide) heap.renew();
    }
    outcome result{outcome_status::ok, "", {std::move(share)}};
    if constexpr (requires { A::own_bytes(simt::size_t{}); }) {
      double const whole = static_cast<double>(heap.bytes()), own = static_cast<double>(A::own_bytes(heap.bytes()));
      row of_own{"utilisation_of_own", "ratio", result.rows[0].samples};
      for (double& sample : of_own.samples) sample *= whole / own;
      if (own != 0) result.rows.push_back(std::move(of_own));
    }
    return result;
  }
};

}  // namespace gpuheap::bench
