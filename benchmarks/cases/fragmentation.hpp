// fragmentation: the distance between the blocks of one kernel, at first and after rounds of allocating and freeing, and the memory that
// rounding takes.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>

#include <string>
#include <utility>

#include "cases/alloc_mixed.hpp"
#include "cases/alloc_single.hpp"
#include "harness/allocation_rounds.hpp"
#include "harness/bound_bytes.hpp"

namespace gpuheap::bench {

struct extent {
  simt::uint64_t first = ~simt::uint64_t{0};  // address of the lowest byte
  simt::uint64_t last = 0;                    // one behind the highest byte that was asked for
  simt::uint64_t requested_bytes = 0;
  simt::uint64_t bound_bytes = 0;
  simt::uint64_t failed_requests = 0;
};

template <class Ref, class Requests>
struct measure_extent {
  Ref heap;
  Requests requests;
  void* const* blocks;
  extent* found;
  GPUHEAP_FN void operator()(unsigned request) const {
    using word = simt::atomic_ref<simt::uint64_t>;
    // relaxed, all: tallies that the host reads after the kernel.
    if (blocks[request] == nullptr) {
      word{found->failed_requests}.fetch_add(1, simt::relaxed);
      return;
    }
    auto const address = static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(blocks[request]));
    auto const bytes = requests.bytes(request);
    word{found->first}.fetch_min(address, simt::relaxed);
    word{found->last}.fetch_max(address + bytes, simt::relaxed);
    word{found->requested_bytes}.fetch_add(bytes, simt::relaxed);
    word{found->bound_bytes}.fetch_add(bench::bound_bytes(heap, blocks[request], bytes), simt::relaxed);
  }
};

struct fragmentation {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "16", 1, simt::uint64_t{1} << 30),
      choice_parameter("dist", "equal", "equal|uniform|pow2"),  // uniform: from 1 byte up; pow2: from 16
      number_parameter("round", "1", 1, 10'000),                // the one whose blocks are looked at
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "fragmentation",
      .brief = "the address range of the blocks of one kernel over the requested bytes, and the share that rounding wastes",
      .section = "Memory",
      .parameters = parameters,
      .check = &check_drawn_sizes,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const bytes = p.number("bytes");
    if (p.text("dist") == "equal") return measure<A>(s, p, equal_requests{p.threads(), bytes});
    bool const powers = p.text("dist") == "pow2";
    return measure<A>(s, p,
                      random_requests{p.threads(), static_cast<simt::uint32_t>(bytes), powers, random_sequence{s.seed},
                                      powers ? smallest_power_drawn : 1});
  }

 private:
  template <class A, class Requests>
  static std::string why_not(session const& s, point const& p, Requests const& requests) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return reason;
    if (A::traits.process_wide && !s.first_run) return no_second_heap;
    if (A::traits.overwrites) return "this allocator overwrites live memory";
    if (A::traits.free == frees::never && p.number("round") > 1) return "this allocator never reuses freed memory";
    auto const asked = sum_over_requests(requests, [](simt::uint64_t bytes) { return bytes; });
    if (asked <= s.heap_bytes) return "";
    return "the requests add up to " + memory::format_bytes(asked) + ", more than the heap of " + memory::format_bytes(s.heap_bytes);
  }

  template <class A, class Requests>
  static outcome measure(session const& s, point const& p, Requests const& requests) {
    if (auto reason = why_not<A>(s, p, requests); !reason.empty()) return unsupported(std::move(reason));
    using ref = typename heap_under_test<A>::ref_type;
    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads);
    launch(requests.threads, write_sizes<Requests>{requests, sizes.data()}, config);
    block_list const list{blocks.data(), sizes.data(), requests.threads};
    block_checker checker(stream);
    device_array<extent> found(1);
    row range{"address_range_ratio", "ratio", {}}, internal{"internal_fragmentation", "ratio", {}},
        failed_requests{"failed_requests", "count", {}};
    pace const timing(s);
    std::uint64_t const rounds = p.number("round");
    for (unsigned run = 0; !timing.enough(run); ++run) {
      if (run != 0) heap.renew();
      extent seen;
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        double const done = static_cast<double>(run * rounds + round - 1);
        if (auto reason = timing.too_slow(done, static_cast<double>(timing.lacking(run) * rounds - round + 1)); !reason.empty())
          return timed_out(std::move(reason));
        launch(requests.threads, malloc_and_store<ref, Requests>{heap.ref(), requests, blocks.data()}, config);
        auto const report = checker.inspect(list, A::traits.min_alignment, heap.range());
        if (auto fault = report.fault(A::traits.min_alignment); !fault.empty())
          return wrong("round " + std::to_string(round) + ": " + fault);
        if (round == rounds) {
          simt::copy(found.data(), &seen, sizeof seen, stream);
          launch(requests.threads, measure_extent<ref, Requests>{heap.ref(), requests, blocks.data(), found.data()}, config);
          seen = found.download(stream)[0];
          auto const lost = run == 0 ? checker.count_lost(list, requests.largest_bytes(), run) : 0;
          if (lost != 0) return wrong(std::to_string(lost) + " words did not keep their contents: blocks overlap");
        }
        launch(requests.threads, load_and_free<ref, Requests>{heap.ref(), requests, blocks.data()}, config);
      }
      if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
      if (seen.requested_bytes == 0) return unsupported("no request found memory");
      auto const requested = static_cast<double>(seen.requested_bytes);
      range.samples.push_back(static_cast<double>(seen.last - seen.first) / requested);
      internal.samples.push_back(1 - requested / static_cast<double>(seen.bound_bytes));
      failed_requests.samples.push_back(static_cast<double>(seen.failed_requests));
    }
    outcome result{outcome_status::ok, "", {std::move(range), std::move(failed_requests)}};
    if (knows_bound_bytes<A>) result.rows.push_back(std::move(internal));
    return result;
  }
};

}  // namespace gpuheap::bench
