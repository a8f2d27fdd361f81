// probability: in each of several kernels one lane of each warp either asks for a block, if it has none, or frees the one it has, each with
// a given chance. Vinkler and Havran 2014, section 5, [P], after ScatterAlloc's authors.
//
// The paper gives the chance as 0.75, and for 960 warps and ten kernels 1450 allocations and 986 deallocations. A chance p gives a warp
// that starts without a block p * (5 + (1 - (1 - 2p)^10) / (4p)) allocations on average: 3840 (and 3360 frees) at 0.75, but 1440 (and 960)
// at 0.25, which is what the paper counted. Both can be asked for.
#pragma once

#include <gpuheap/simt/launch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "harness/pace.hpp"
#include "harness/random.hpp"
#include "harness/warp_cycles.hpp"

namespace gpuheap::bench {

// The blocks of a warp, and its actions in the kernels of a run.
struct warp_holding {
  void* block;
  simt::uint16_t allocations, deallocations, failed_requests, unused;
};

template <class Ref>
struct take_or_give {
  Ref heap;
  warp_holding* holdings;
  random_sequence random;
  simt::uint64_t first_draw;
  simt::uint64_t bytes;
  unsigned take_percent, give_percent;

  GPUHEAP_FN void operator()(unsigned thread) const {
    if (thread % simt::warp_lanes != 0) return;
    unsigned const warp = thread / simt::warp_lanes;
    warp_holding mine = holdings[warp];
    unsigned const draw = random.below(first_draw + warp, 100);
    if (mine.block == nullptr) {
      if (draw >= take_percent) return;
      mine.block = heap.malloc(bytes);
      ++mine.allocations;
      mine.failed_requests += mine.block == nullptr;
    } else {
      if (draw >= give_percent) return;
      free_or_release(heap, mine.block);
      mine.block = nullptr;
      ++mine.deallocations;
    }
    holdings[warp] = mine;
  }
};

struct probability {
  static constexpr parameter parameters[] = {warp_cycle_threads_parameter,
                                             bytes_parameter,
                                             number_parameter("calls", "10", 1, 10'000),
                                             number_parameter("chance", "75", 1, 100),  // percent, of either
                                             state_parameter,
                                             heap_parameter,
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "probability",
      .brief = "kernel after kernel, one lane of each warp asks for a block or frees the one it has, each with a chance",
      .section = "Warps",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_warp_cycles<A>(s, p); !reason.empty()) return unsupported(std::move(reason));
    auto const warps = static_cast<unsigned>(simt::ceil_div(p.threads(), simt::warp_lanes));
    auto const calls = static_cast<unsigned>(p.number("calls"));
    auto const chance = static_cast<unsigned>(p.number("chance"));
    bool const fresh_heaps = p.text("state") == "cold" || A::traits.free == frees::never;
    bool const contents_last = !A::traits.overwrites || std::uint64_t{warps} * calls * (padded_bytes(p) + 16) <= s.heap_bytes;

    using kernel = take_or_give<typename heap_under_test<A>::ref_type>;
    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    device_array<warp_holding> holdings(warps);
    block_checker checker(stream);
    kernel_timer timer(stream);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};

    row kernel_us{"kernel_us", "us", {}}, failed_requests{"failed_requests", "count", {}};
    row allocations{"allocations", "count", {}}, deallocations{"deallocations", "count", {}};
    pace const timing(s);
    // Run 0 warms up.
    for (unsigned n = 0; n == 0 || !timing.enough(kernel_us.samples.size()); ++n) {
      if (auto reason = timing.too_slow_after(n, kernel_us.samples.size()); !reason.empty()) return timed_out(std::move(reason));
      if (fresh_heaps && n != 0) heap.renew();
      holdings.zero(stream);
      random_sequence const random{s.seed, n};
      double const us = timer.time_us([&] {
        for (unsigned call = 0; call < calls; ++call) {
          launch(p.threads(), kernel{heap.ref(), holdings.data(), random, std::uint64_t{call} * warps, padded_bytes(p), chance, chance},
                 config);
        }
      });
      counted const now = count(holdings.download(stream));
      auto const blocks = on_device(now.blocks, stream);
      auto const sizes = on_device(std::vector<simt::uint64_t>(now.blocks.size(), padded_bytes(p)), stream);
      block_list const list{blocks.data(), sizes.data(), static_cast<unsigned>(now.blocks.size())};
      if (list.count != 0) {
        auto const report = checker.inspect(list, A::traits.min_alignment, heap.range());
        if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return wrong("run " + std::to_string(n) + ": " + fault);
        auto const lost = contents_last ? checker.count_lost(list, padded_bytes(p), n) : 0;
        if (lost != 0) return wrong("run " + std::to_string(n) + ": " + std::to_string(lost) + " words did not keep their contents");
      }
      launch(p.threads(), kernel{heap.ref(), holdings.data(), random, 0, padded_bytes(p), 0, 100}, config);
      if (n == 0) continue;
      kernel_us.samples.push_back(us);
      failed_requests.samples.push_back(now.failed_requests);
      allocations.samples.push_back(now.allocations);
      deallocations.samples.push_back(now.deallocations);
    }
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(failed_requests), std::move(allocations), std::move(deallocations)}};
  }

 private:
  struct counted {
    double allocations = 0, deallocations = 0, failed_requests = 0;
    std::vector<void*> blocks;  // live
  };
  static counted count(std::vector<warp_holding> const& holdings) {
    counted sum;
    for (auto const& h : holdings) {
      sum.allocations += h.allocations;
      sum.deallocations += h.deallocations;
      sum.failed_requests += h.failed_requests;
      if (h.block != nullptr) sum.blocks.push_back(h.block);
    }
    return sum;
  }
};

}  // namespace gpuheap::bench
