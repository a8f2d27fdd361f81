// memory_access: the speed of accesses to memory from the heap. Every thread writes or reads its whole block; the threads of a warp asked
// for their blocks together. The same kernel is timed for comparison on blocks that lie one after another in an array.
#pragma once

#include <gpuheap/allocator.hpp>

#include <string>
#include <utility>
#include <vector>

#include "cases/alloc_mixed.hpp"
#include "cases/alloc_single.hpp"
#include "harness/random.hpp"

namespace gpuheap::bench {

// The value that the owner of block `i` writes to its `w`-th word of 8 bytes. Patterns differ.
[[nodiscard]] GPUHEAP_HD inline simt::uint64_t word_of_block(simt::uint64_t i, simt::uint64_t w, unsigned pattern) {
  return mix_bits(i + 1 + (simt::uint64_t{pattern} << 32)) + w;
}

// The timed kernels.
template <class Requests>
struct write_blocks {
  Requests requests;
  void* const* blocks;
  unsigned pattern;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto* const words = static_cast<simt::uint64_t*>(blocks[i]);
    auto const num_words = static_cast<simt::uint32_t>(requests.bytes(i) / 8);
    for (simt::uint32_t w = 0; w < num_words; ++w) words[w] = word_of_block(i, w, pattern);
  }
};
template <class Requests>
struct read_blocks {
  Requests requests;
  void* const* blocks;
  simt::uint64_t* sums;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const* const words = static_cast<simt::uint64_t const*>(blocks[i]);
    auto const num_words = static_cast<simt::uint32_t>(requests.bytes(i) / 8);
    simt::uint64_t sum = 0;
    for (simt::uint32_t w = 0; w < num_words; ++w) sum += words[w];
    sums[i] = sum;
  }
};

// Counts blocks that do not hold, or whose reader did not find, what their owner wrote. `sums`: nullptr where no thread read.
template <class Requests>
struct check_blocks {
  Requests requests;
  void* const* blocks;
  simt::uint64_t const* sums;
  unsigned pattern;
  simt::uint64_t* num_lost;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const* const words = static_cast<simt::uint64_t const*>(blocks[i]);
    auto const num_words = static_cast<simt::uint32_t>(requests.bytes(i) / 8);
    bool good = true;
    simt::uint64_t sum = 0;
    for (simt::uint32_t w = 0; w < num_words; ++w) {
      good = good && words[w] == word_of_block(i, w, pattern);
      sum += word_of_block(i, w, pattern);
    }
    // relaxed: a tally that the host reads after the kernel.
    if (!good || (sums != nullptr && sums[i] != sum)) simt::atomic_ref<simt::uint64_t>{*num_lost}.fetch_add(1, simt::relaxed);
  }
};

struct memory_access {
  static constexpr simt::uint32_t smallest = 16;  // of drawn sizes
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "16", 8, 1u << 20),        // rounded up to 16 in the array, as malloc aligns
      choice_parameter("dist", "equal", "equal|uniform"),  // uniform: from 16 bytes up
      choice_parameter("access", "read", "read|write"),
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "memory_access",
      .brief = "every thread writes or reads its own block, over the same in an array in which the blocks lie side by side",
      .section = "Memory",
      .parameters = parameters,
      .check =
          [](session const&, point const& p) {
            if (p.text("dist") == "uniform" && p.number("bytes") < smallest)
              throw usage_error("bytes=" + p.text("bytes") + ": with dist=uniform sizes begin at " + std::to_string(smallest));
          },
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    auto const bytes = p.number("bytes");
    if (p.text("dist") == "equal") return measure<A>(s, p, equal_requests{p.threads(), bytes});
    return measure<A>(s, p, random_requests{p.threads(), static_cast<simt::uint32_t>(bytes), false, random_sequence{s.seed}, smallest});
  }

 private:
  // The offset of each block in an array that holds the blocks side by side, and the array's length at the end.
  template <class Requests>
  static std::vector<simt::uint64_t> packed(Requests const& requests) {
    std::vector<simt::uint64_t> offsets(std::size_t{requests.threads} + 1, 0);
    for (unsigned i = 0; i < requests.threads; ++i) offsets[i + 1] = offsets[i] + simt::round_up_pow2(requests.bytes(i), 16);
    return offsets;
  }

  template <class A, class Requests>
  static outcome measure(session const& s, point const& p, Requests const& requests) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (most_bytes_taken(requests) > s.heap_bytes)
      return unsupported("the blocks may not fit into a heap of " + memory::format_bytes(s.heap_bytes));
    bool const writes = p.text("access") == "write";

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    kernel_timer timer(stream);
    block_checker checker(stream);
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads), sums(requests.threads), num_lost(1);
    auto const offsets = packed(requests);
    device_array<unsigned char> array(offsets.back());
    std::vector<void*> side_by_side(requests.threads);
    for (unsigned i = 0; i < requests.threads; ++i) side_by_side[i] = array.data() + offsets[i];
    auto const places = on_device(side_by_side, stream);
    using ref = typename heap_under_test<A>::ref_type;

    launch(requests.threads, malloc_and_store<ref, Requests>{heap.ref(), requests, blocks.data()}, config);
    launch(requests.threads, write_sizes<Requests>{requests, sizes.data()}, config);
    auto const report = checker.inspect({blocks.data(), sizes.data(), requests.threads}, A::traits.min_alignment, heap.range());
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return wrong(std::move(fault));
    if (report.failed_requests != 0)
      return unsupported(std::to_string(report.failed_requests) + " of " + std::to_string(requests.threads) + " requests failed");

    row kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}};
    // Run 0 warms up.
    for (unsigned run = 0; run <= s.runs; ++run) {
      unsigned const pattern = writes ? run : 0;
      auto const time = [&](void* const* of) {
        auto const write = [&] { launch(requests.threads, write_blocks<Requests>{requests, of, pattern}, config); };
        auto const read = [&] { launch(requests.threads, read_blocks<Requests>{requests, of, sums.data()}, config); };
        if (writes) return timer.time_us(write);
        if (run == 0) write();
        return timer.time_us(read);
      };
      double const packed_us = time(places.data());
      double const heap_us = time(blocks.data());
      num_lost.zero(stream);
      launch(requests.threads, check_blocks<Requests>{requests, blocks.data(), writes ? nullptr : sums.data(), pattern, num_lost.data()},
             config);
      if (auto const lost = num_lost.download(stream)[0]; lost != 0)
        return wrong(std::to_string(lost) + " blocks did not keep their contents");
      if (run == 0) continue;
      kernel_us.samples.push_back(heap_us);
      slowdown.samples.push_back(heap_us / packed_us);
    }
    launch(requests.threads, load_and_free<ref, Requests>{heap.ref(), requests, blocks.data()}, config);
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(slowdown)}};
  }
};

}  // namespace gpuheap::bench
