// work_generation: every thread makes work of a random size and writes it into memory that it gets for it. An allocator hands it out while
// the kernel runs; without one (baselines/scan_malloc.hpp) a first kernel says how much each thread needs, a scan makes offsets of it, the
// host allocates, and a second kernel writes. All of that is inside the time.
#pragma once

#include <gpuheap/allocator.hpp>

#include <string>
#include <utility>

#include "cases/alloc_mixed.hpp"
#include "harness/random.hpp"

namespace gpuheap::bench {

// The w-th word of 4 bytes of thread i's work in a run.
[[nodiscard]] GPUHEAP_HD inline simt::uint32_t word_of_work(simt::uint64_t i, simt::uint32_t w, unsigned run) {
  return static_cast<simt::uint32_t>(mix_bits(i + (simt::uint64_t{run} << 32))) + w;
}
GPUHEAP_FN inline void write_work(void* to, simt::uint64_t bytes, unsigned i, unsigned run) {
  auto* const words = static_cast<simt::uint32_t*>(to);
  simt::uint32_t const first = word_of_work(i, 0, run);
  for (simt::uint32_t w = 0; w < bytes / 4; ++w) words[w] = first + w;
}

// With an allocator: the whole of what is timed.
template <class Ref>
struct make_work {
  Ref heap;
  random_requests requests;
  void** blocks;
  unsigned run;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const bytes = requests.bytes(i);
    void* const block = heap.malloc(bytes);
    blocks[i] = block;
    if (block != nullptr) write_work(block, bytes, i, run);
  }
};

// Without: what each thread needs (none behind the last one), then the work.
struct tell_sizes {
  random_requests requests;
  simt::uint64_t* sizes;
  GPUHEAP_FN void operator()(unsigned i) const { sizes[i] = i < requests.threads ? simt::round_up_pow2(requests.bytes(i), 16) : 0; }
};
struct write_at_offsets {
  random_requests requests;
  unsigned char* base;
  simt::uint64_t const* offsets;
  void** blocks;
  unsigned run;
  GPUHEAP_FN void operator()(unsigned i) const {
    blocks[i] = base + offsets[i];
    write_work(blocks[i], requests.bytes(i), i, run);
  }
};

struct count_lost_work {
  random_requests requests;
  void* const* blocks;
  unsigned run;
  simt::uint64_t* num_lost;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const* const words = static_cast<simt::uint32_t const*>(blocks[i]);
    if (words == nullptr) return;
    bool good = true;
    for (simt::uint32_t w = 0; w < requests.bytes(i) / 4; ++w) good = good && words[w] == word_of_work(i, w, run);
    // relaxed: a tally that the host reads after the kernel.
    if (!good) simt::atomic_ref<simt::uint64_t>{*num_lost}.fetch_add(1, simt::relaxed);
  }
};

struct work_generation {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "64", smallest_drawn, 1u << 20),
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "work_generation",
      .brief = "every thread gets memory for work of a random size from 4 bytes up and writes it, with a heap or with a scan and the host",
      .section = "Applications",
      .parameters = parameters,
      .takes_host_allocation = true,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    random_requests const requests{p.threads(), static_cast<simt::uint32_t>(p.number("bytes")), false, random_sequence{s.seed},
                                   smallest_drawn};
    if constexpr (allocates_from_host<A>()) {
      return measure_scan<A>(s, p, requests);
    } else {
      return measure_heap<A>(s, p, requests);
    }
  }

 private:
  // Rounds of `one_round`, which returns its time and leaves the work at blocks[]; `inspect` says what is wrong with the addresses, or "".
  template <class Round, class Inspect, class GiveBack>
  static outcome measure(session const& s, random_requests const& requests, stream_ref stream, void* const* blocks, Round one_round,
                         Inspect inspect, GiveBack deallocate) {
    device_array<simt::uint64_t> num_lost(1);
    row kernel_us{"kernel_us", "us", {}}, failed_requests{"failed_requests", "count", {}};
    pace const timing(s);
    // Round 0 warms up.
    for (unsigned round = 0; round == 0 || !timing.enough(kernel_us.samples.size()); ++round) {
      if (auto reason = timing.too_slow(round, static_cast<double>(timing.lacking(kernel_us.samples.size()))); !reason.empty())
        return timed_out(std::move(reason));
      double const us = one_round(round);
      simt::uint64_t failed = 0;
      if (auto fault = inspect(failed); !fault.empty()) return wrong("round " + std::to_string(round) + ": " + fault);
      num_lost.zero(stream);
      launch(requests.threads, count_lost_work{requests, blocks, round, num_lost.data()}, {.stream = stream});
      if (auto const lost = num_lost.download(stream)[0]; lost != 0)
        return wrong("round " + std::to_string(round) + ": " + std::to_string(lost) + " threads did not find the work that they wrote");
      deallocate();
      if (round == 0) continue;
      kernel_us.samples.push_back(us);
      failed_requests.samples.push_back(static_cast<double>(failed));
    }
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(failed_requests)}};
  }

  template <class A>
  static outcome measure_heap(session const& s, point const& p, random_requests const& requests) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (most_bytes_taken(requests) > s.heap_bytes)
      return unsupported("the work may not fit into a heap of " + memory::format_bytes(s.heap_bytes));
    using ref = typename heap_under_test<A>::ref_type;
    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    kernel_timer timer(stream);
    block_checker checker(stream);
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads);
    launch(requests.threads, write_sizes<random_requests>{requests, sizes.data()}, config);
    auto result = measure(
        s, requests, stream, blocks.data(),
        [&](unsigned round) {
          if (A::traits.free == frees::never && round != 0) heap.renew();
          return timer.time_us([&] { launch(requests.threads, make_work<ref>{heap.ref(), requests, blocks.data(), round}, config); });
        },
        [&](simt::uint64_t& failed) {
          auto const report = checker.inspect({blocks.data(), sizes.data(), requests.threads}, A::traits.min_alignment, heap.range());
          failed = report.failed_requests;
          return report.fault(A::traits.min_alignment);
        },
        [&] {
          launch(requests.threads, load_and_free<ref, random_requests>{heap.ref(), requests, blocks.data()}, config);
        });
    if (auto fault = heap.refused_frees(); result.status == outcome_status::ok && !fault.empty()) return wrong(std::move(fault));
    return result;
  }

  // The frees of a round before are not in the time of the next: those of a heap are not either.
  template <class A>
  static outcome measure_scan(session const& s, point const& p, random_requests const& requests) {
    owned_stream stream;
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    kernel_timer timer(stream);
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(std::size_t{requests.threads} + 1);
    typename A::batch memory(requests.threads);
    return measure(
        s, requests, stream, blocks.data(),
        [&](unsigned round) {
          return timer.time_us([&] {
            launch(requests.threads + 1, tell_sizes{requests, sizes.data()}, config);
            memory.take(sizes.data(), stream);
            launch(requests.threads, write_at_offsets{requests, memory.base(), memory.offsets(), blocks.data(), round}, config);
          });
        },
        [](simt::uint64_t&) { return std::string(); }, [&] { memory.deallocate(stream); });
  }
};

}  // namespace gpuheap::bench
