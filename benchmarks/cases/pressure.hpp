// pressure: many size classes in a heap that is nearly full. Threads fill it with blocks of random sizes, free a random half, and fill it
// again with others, several times. The case shows how full the heap may be before it refuses a request that would still fit.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/launch.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/random.hpp"
#include "harness/tagged_blocks.hpp"

namespace gpuheap::bench {

struct pressure_tally {
  block_tally blocks;
  simt::uint64_t live_bytes = 0;        // requested, of live blocks and of requests under way
  simt::uint64_t first_null_bytes = 0;  // the least live_bytes, its own request included, at which one failed in this fill
  simt::uint64_t early_failures = 0;    // that failed at or below early_bytes, in all fills
};

// The slots of all threads: slot i belongs to thread i % threads. `born` says in which fill its block was taken.
template <class Ref>
struct pressure_slots {
  tagged_blocks<Ref> blocks;
  random_sequence fate;
  simt::uint64_t** kept;
  simt::uint32_t* born;
  unsigned threads;
  unsigned slots_per_thread;
  pressure_tally* tally;

  [[nodiscard]] GPUHEAP_FN simt::uint64_t number(simt::uint64_t slot, simt::uint32_t fill) const {
    return simt::uint64_t{fill} * threads * slots_per_thread + slot;
  }
  // relaxed: what it counts publishes nothing.
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<simt::uint64_t> live() const { return simt::atomic_ref<simt::uint64_t>{tally->live_bytes}; }
};

// Every thread asks for a block in each of its empty slots until one fails or would lift what is live above the limit. A request is counted
// as live before it is made, and a block until after its free, so that a request that fails did so with at most as much live as the count
// reached until then.
template <class Ref>
struct fill_empty_slots {
  pressure_slots<Ref> owned;
  simt::uint32_t fill;
  simt::uint64_t limit_bytes;
  simt::uint64_t early_bytes;
  GPUHEAP_FN void operator()(unsigned thread) const {
    for (unsigned s = 0; s < owned.slots_per_thread; ++s) {
      simt::uint64_t const slot = simt::uint64_t{s} * owned.threads + thread;
      if (owned.kept[slot] != nullptr) continue;
      auto const request = owned.blocks.request(owned.number(slot, fill));
      simt::uint64_t const now = owned.live().fetch_add(request.bytes, simt::relaxed) + request.bytes;
      simt::uint64_t* const block = now <= limit_bytes ? owned.blocks.take(request) : nullptr;
      if (block == nullptr) {
        // During a fill the count only rises, but for requests that failed: what it reached while this one was looking for memory.
        simt::uint64_t const after = owned.live().fetch_sub(request.bytes, simt::relaxed);
        if (now > limit_bytes) return;
        simt::uint64_t const reached = after > now ? after : now;
        simt::atomic_ref<simt::uint64_t>{owned.tally->first_null_bytes}.fetch_min(reached, simt::relaxed);
        if (reached <= early_bytes) simt::atomic_ref<simt::uint64_t>{owned.tally->early_failures}.fetch_add(1, simt::relaxed);
        return;
      }
      owned.kept[slot] = block;
      owned.born[slot] = fill;
    }
  }
};

// Gives back each block with a chance of `percent`, drawn anew after each fill.
template <class Ref>
struct free_some_slots {
  pressure_slots<Ref> owned;
  simt::uint32_t after_fill;
  unsigned percent;
  GPUHEAP_FN void operator()(unsigned thread) const {
    for (unsigned s = 0; s < owned.slots_per_thread; ++s) {
      simt::uint64_t const slot = simt::uint64_t{s} * owned.threads + thread;
      if (owned.kept[slot] == nullptr || owned.fate.below(owned.number(slot, after_fill), 100) >= percent) continue;
      auto const request = owned.blocks.request(owned.number(slot, owned.born[slot]));
      owned.blocks.deallocate(owned.kept[slot], request);
      owned.live().fetch_sub(request.bytes, simt::relaxed);
      owned.kept[slot] = nullptr;
    }
  }
};

struct pressure {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "8192", tagged_smallest_bytes, 1u << 20),
      number_parameter("refills", "10", 1, 1000),
      number_parameter("fill", "100", 1, 100),  // percent of the heap that requests add up to at most; at 100, until they fail
      number_parameter("early", "80", 0, 100),  // percent of the heap up to which no request should fail
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "pressure",
      .brief = "a heap filled with random sizes from 16 bytes up, half freed at random and filled again: how full it is when requests fail",
      .section = "Mixed use",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (A::traits.free == frees::never) return unsupported("this allocator never reuses freed memory");
    if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
    using ref = typename heap_under_test<A>::ref_type;
    auto const largest = static_cast<simt::uint32_t>(p.number("bytes"));
    auto const fills = static_cast<simt::uint32_t>(p.number("refills")) + 1;
    simt::uint64_t const limit = simt::ceil_div(s.heap_bytes * p.number("fill"), 100);
    // Half as many again as fill the heap on average, so that it is the heap that ends a fill.
    simt::uint64_t const mean = (tagged_smallest_bytes + largest) / 2;
    auto const slots_per_thread = static_cast<unsigned>(s.heap_bytes * 3 / 2 / mean / p.threads() + 1);

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    kernel_timer timer(stream);
    device_array<simt::uint64_t*> kept(std::size_t{slots_per_thread} * p.threads());
    device_array<simt::uint32_t> born(kept.size());
    device_array<pressure_tally> tally(1);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    row served{"utilisation", "ratio", {}}, failed_requests{"failed_requests", "count", {}}, kernel_us{"kernel_us", "us", {}};

    // Run 0 checks whole blocks and is not counted.
    for (unsigned n = 0; n <= s.runs; ++n) {
      if (!A::traits.process_wide) heap.renew();
      kept.zero(stream);
      tally.zero(stream);
      pressure_slots<ref> const owned{
          .blocks = {.heap = heap.ref(),
                     .random = random_sequence{s.seed, 2 * n},
                     .largest = largest,
                     .whole_contents = n == 0,
                     .tally = &tally.data()->blocks},
          .fate = random_sequence{s.seed, 2 * n + 1},
          .kept = kept.data(),
          .born = born.data(),
          .threads = p.threads(),
          .slots_per_thread = slots_per_thread,
          .tally = tally.data(),
      };
      simt::uint64_t const no_null = ~simt::uint64_t{0};
      simt::uint64_t least = no_null;
      for (simt::uint32_t fill = 0; fill < fills; ++fill) {
        if (fill != 0) launch(p.threads(), free_some_slots<ref>{owned, fill, 50}, config);
        simt::copy(&tally.data()->first_null_bytes, &no_null, sizeof no_null, stream);
        double const us = timer.time_us([&] {
          launch(p.threads(), fill_empty_slots<ref>{owned, fill, limit, s.heap_bytes * p.number("early") / 100}, config);
        });
        auto const now = tally.download(stream)[0];
        if (auto fault = now.blocks.fault(); !fault.empty()) return wrong("fill " + std::to_string(fill) + ": " + fault);
        // The bytes that were live when no request failed: the limit, or less by under one request.
        simt::uint64_t const reached = now.live_bytes + largest > limit ? limit : now.live_bytes;
        least = std::min(least, now.first_null_bytes == no_null ? reached : now.first_null_bytes);
        if (n != 0 && fill != 0) kernel_us.samples.push_back(us);
      }
      launch(p.threads(), free_some_slots<ref>{owned, fills, 100}, config);
      auto const last = tally.download(stream)[0];
      if (auto fault = last.blocks.fault(); !fault.empty()) return wrong("the last frees: " + fault);
      if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
      if (last.live_bytes != 0)
        return wrong(std::to_string(last.live_bytes) + " bytes are live after all frees: the case's own count is off");
      if (n == 0) continue;
      served.samples.push_back(static_cast<double>(least) / static_cast<double>(s.heap_bytes));
      failed_requests.samples.push_back(static_cast<double>(last.early_failures));
    }
    return {outcome_status::ok, "", {std::move(served), std::move(failed_requests), std::move(kernel_us)}};
  }
};

}  // namespace gpuheap::bench
