// init: making an allocator in memory that is there already, as a heap does and a reset does again.
#pragma once

#include <gpuheap/allocator.hpp>

#include <chrono>
#include <string>
#include <utility>

#include "cases/alloc_single.hpp"

namespace gpuheap::bench {

struct init {
  static constexpr parameter parameters[] = {heap_parameter};
  static constexpr case_description description{
      .name = "init",
      .brief = "making the allocator in given memory: the time on the stream, and the time that the host waits",
      .section = "Start",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const&) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if constexpr (A::traits.process_wide) {
      return s.first_run ? measure_once<A>(s) : unsupported(no_second_heap);
    } else {
      return measure<A>(s);
    }
  }

 private:
  // A heap of the process: what its making and its first request take. The device has run a kernel before; those of the heap are loaded by
  // the first that runs, as it is in a program.
  template <class A>
  static outcome measure_once(session const& s) {
    using clock = std::chrono::steady_clock;
    owned_stream stream;
    equal_requests const requests{1, 64};
    device_array<void*> blocks(1);
    device_array<simt::uint64_t> sizes(1);
    launch(1, write_sizes<equal_requests>{requests, sizes.data()}, {.stream = stream});
    kernel_timer timer(stream);
    simt::synchronize(stream);
    auto const begin = clock::now();
    double stream_us = 0;
    heap_under_test<A> heap(s.heap_bytes, stream);
    using ref = typename heap_under_test<A>::ref_type;
    stream_us = timer.time_us([&] {
      launch(1, malloc_and_store<ref, equal_requests>{heap.ref(), requests, blocks.data()}, {.block_threads = 32, .stream = stream});
    });
    simt::synchronize(stream);
    double const host_ms = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
    if (blocks.download(stream)[0] == nullptr) return wrong("the first request failed");
    return {outcome_status::ok, "", {{"init_ms", "ms", {stream_us / 1000}}, {"total_ms", "ms", {host_ms}}}};
  }

  template <class A>
  static outcome measure(session const& s) {
    using clock = std::chrono::steady_clock;
    owned_stream stream;
    device_array<unsigned char> memory(s.heap_bytes);
    memory::region const region{memory.data(), memory.size()};
    kernel_timer timer(stream);
    row init_ms{"init_ms", "ms", {}}, total_ms{"total_ms", "ms", {}};
    // Round 0 loads the kernels and is not counted.
    for (unsigned round = 0; round <= s.runs; ++round) {
      simt::synchronize(stream);
      auto const begin = clock::now();
      (void)A::create(region, stream);
      simt::synchronize(stream);
      double const host_ms = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
      double const stream_us = timer.time_us([&] { (void)A::create(region, stream); });
      if (round == 0) continue;
      total_ms.samples.push_back(host_ms);
      init_ms.samples.push_back(stream_us / 1000);
    }
    outcome result{outcome_status::ok, "", {std::move(init_ms), std::move(total_ms)}};
    A const made = A::create(region, stream);
    if constexpr (has_footprint<A>) {
      auto const metadata = static_cast<double>(made.footprint(stream).metadata_bytes);
      result.rows.push_back({"metadata_ratio", "ratio", {metadata / static_cast<double>(s.heap_bytes)}});
    }
    if (auto fault = why_unusable(made, region, stream); !fault.empty()) return wrong(std::move(fault));
    return result;
  }

  // Whether a heap that was made serves: "" if it does.
  template <class A>
  static std::string why_unusable(A const& made, memory::region region, stream_ref stream) {
    equal_requests const requests{256, 64};
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads);
    launch(requests.threads, malloc_and_store<A, equal_requests>{made, requests, blocks.data()}, {.stream = stream});
    launch(requests.threads, write_sizes<equal_requests>{requests, sizes.data()}, {.stream = stream});
    block_list const list{blocks.data(), sizes.data(), requests.threads};
    block_checker checker(stream);
    auto const report = checker.inspect(list, A::traits.min_alignment, region);
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return fault;
    // 64 KiB, if need be from one multiprocessor's part of the region.
    if (report.failed_requests != 0 && region.bytes >= std::size_t{16} << 20)
      return std::to_string(report.failed_requests) + " of 256 first requests failed";
    auto const lost = A::traits.overwrites ? 0 : checker.count_lost(list, requests.request_bytes, 0);
    return lost == 0 ? "" : std::to_string(lost) + " words did not keep their contents: blocks overlap";
  }
};

}  // namespace gpuheap::bench
