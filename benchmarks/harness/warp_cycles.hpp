// The common part of the generic tests of Vinkler and Havran (2014, section 5): one lane of each warp allocates, sizes are padded to 16
// bytes, and requests and frees are in one kernel.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <string>
#include <utility>
#include <vector>

#include "harness/block_check.hpp"
#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/pace.hpp"

namespace gpuheap::bench {

// 120 blocks of 256 threads.
inline constexpr parameter warp_cycle_threads_parameter = number_parameter("threads", "30720", 32, 1u << 24);

// The bytes that the test requests if the point says so many.
[[nodiscard]] inline simt::uint64_t padded_bytes(point const& p) { return simt::round_up_pow2(p.number("bytes"), 16); }

// Lane 0 of each warp takes `iterations` blocks, one after the other, then gives them all back. Block k of warp w is blocks[k * warps + w].
template <class Ref>
struct warp_cycle {
  Ref heap;
  void** blocks;
  simt::uint64_t bytes;
  unsigned warps;
  unsigned iterations;
  bool takes, gives;  // both, but where what was taken is looked at in between

  GPUHEAP_FN void operator()(unsigned thread) const {
    if (thread % simt::warp_lanes != 0) return;
    unsigned const last = warps * iterations;
    if (takes) {
      GPUHEAP_NO_UNROLL
      for (unsigned i = thread / simt::warp_lanes; i < last; i += warps) blocks[i] = heap.malloc(bytes);
    }
    if (!gives) return;
    if constexpr (has_release_warp<typename Ref::allocator_type>) {
      free_or_release(heap, nullptr);
    } else {
      GPUHEAP_NO_UNROLL
      for (unsigned i = thread / simt::warp_lanes; i < last; i += warps) free_or_release(heap, blocks[i]);
    }
  }
};

// Why A cannot take part in a test whose runs are warm or cold, or "".
template <class A>
[[nodiscard]] std::string why_no_warp_cycles(session const& s, point const& p) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return reason;
  if (A::traits.process_wide && p.text("state") == "cold" && !s.first_run) return no_second_heap;
  return "";
}

// Rounds of one kernel. In the first and the last, which are not counted, the blocks are written and read back between requests and frees.
// Requests may add up to more than the heap: those that fail are counted.
template <class A>
[[nodiscard]] outcome run_warp_cycles(session const& s, point const& p, unsigned iterations) {
  if (auto reason = why_no_warp_cycles<A>(s, p); !reason.empty()) return unsupported(std::move(reason));
  auto const bytes = padded_bytes(p);
  auto const warps = static_cast<unsigned>(simt::ceil_div(p.threads(), simt::warp_lanes));
  unsigned const count = warps * iterations;
  bool const fresh_heaps = p.text("state") == "cold" || A::traits.free == frees::never;
  bool const contents_last = !A::traits.overwrites || count * (bytes + 16) <= s.heap_bytes;

  using kernel = warp_cycle<typename heap_under_test<A>::ref_type>;
  owned_stream stream;
  heap_under_test<A> heap(s.heap_bytes, stream);
  device_array<void*> blocks(count);
  auto const sizes = on_device(std::vector<simt::uint64_t>(count, bytes), stream);
  block_list const list{blocks.data(), sizes.data(), count};
  block_checker checker(stream);
  kernel_timer timer(stream);
  launch_config const config{.block_threads = p.block_threads(), .stream = stream};
  auto const go = [&](bool takes, bool gives) {
    launch(p.threads(), kernel{heap.ref(), blocks.data(), bytes, warps, iterations, takes, gives}, config);
  };

  row kernel_us{"kernel_us", "us", {}}, failed_requests{"failed_requests", "count", {}};
  // Loads the kernel, which the timed one would wait for.
  if (s.first_run && simt::most_resident_threads<kernel>(p.block_threads()) == 0) return unsupported("the kernel has too many registers");
  pace const timing(s);
  bool last = false;  // the round after the timed ones
  for (unsigned round = 0; !last; ++round) {
    last = s.first_run || (round != 0 && timing.enough(kernel_us.samples.size()));
    bool const timed = s.first_run || (round != 0 && !last);
    if (auto reason = timing.too_slow_after(round, kernel_us.samples.size()); !reason.empty() && !last) return timed_out(std::move(reason));
    if (fresh_heaps && round != 0) heap.renew();
    blocks.zero(stream);
    double const us = timer.time_us([&] { go(true, timed); });
    auto const report = checker.inspect(list, A::traits.min_alignment, heap.range());
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return wrong("round " + std::to_string(round) + ": " + fault);
    if (timed) {
      kernel_us.samples.push_back(us);
      failed_requests.samples.push_back(static_cast<double>(report.failed_requests));
      continue;
    }
    auto const lost = contents_last ? checker.count_lost(list, bytes, round) : 0;
    if (lost != 0) return wrong("round " + std::to_string(round) + ": " + std::to_string(lost) + " words did not keep their contents");
    go(false, true);
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  return {outcome_status::ok, "", {std::move(kernel_us), std::move(failed_requests)}};
}

}  // namespace gpuheap::bench
