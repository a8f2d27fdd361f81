// memory_access: is memory from the heap as quick to read as any other? Every thread reads its own block whole; the blocks of a warp's
// threads were asked for together. The same kernel on blocks that lie one after another in an array is the measure.
#pragma once

#include <gpuheap/allocator.hpp>

#include <string>
#include <utility>

#include "cases/alloc_single.hpp"
#include "harness/random.hpp"

namespace gpuheap::bench {

// What the owner of block `i` writes to its `w`-th word of 8 bytes.
[[nodiscard]] GPUHEAP_HD inline simt::uint64_t word_of_block(simt::uint64_t i, simt::uint64_t w) { return mix_bits(i + 1) + w; }

struct fill_blocks {
  void* const* blocks;
  simt::uint32_t num_words;
  GPUHEAP_FN void operator()(unsigned i) const {
    // Ends: once for each word of the block.
    for (simt::uint32_t w = 0; w < num_words; ++w) static_cast<simt::uint64_t*>(blocks[i])[w] = word_of_block(i, w);
  }
};
struct place_blocks {
  void** blocks;
  unsigned char* array;
  simt::uint64_t bytes;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = array + i * bytes; }
};
// The timed kernel.
struct read_blocks {
  void* const* blocks;
  simt::uint64_t* sums;
  simt::uint32_t num_words;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const* const words = static_cast<simt::uint64_t const*>(blocks[i]);
    simt::uint64_t sum = 0;
    // Ends: once for each word of the block.
    for (simt::uint32_t w = 0; w < num_words; ++w) sum += words[w];
    sums[i] = sum;
  }
};

struct memory_access {
  static constexpr parameter parameters[] = {
      threads_parameter,
      number_parameter("bytes", "16", 8, 1u << 20),  // rounded up to 16 in the array, as malloc aligns
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "memory_access",
      .brief = "every thread reads its own block, over the same from an array in which the blocks lie side by side",
      .section = "Memory",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    equal_requests const requests{p.threads(), p.number("bytes")};
    if (most_bytes_taken(requests) > s.heap_bytes)
      return unsupported("the blocks may not fit into a heap of " + memory::in_words(s.heap_bytes));
    auto const num_words = static_cast<simt::uint32_t>(requests.request_bytes / 8);
    simt::uint64_t const packed_bytes = simt::round_up_pow2(requests.request_bytes, 16);

    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    kernel_timer timer(stream);
    block_checker checker(stream);
    device_array<void*> blocks(requests.threads), places(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads), sums(requests.threads);
    device_array<unsigned char> array(packed_bytes * requests.threads);
    using ref = typename heap_under_test<A>::ref_type;

    launch(requests.threads, malloc_and_store<ref, equal_requests>{heap.ref(), requests, blocks.data()}, config);
    launch(requests.threads, write_sizes<equal_requests>{requests, sizes.data()}, config);
    auto const report = checker.inspect({blocks.data(), sizes.data(), requests.threads}, A::traits.min_alignment, heap.range());
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return wrong(std::move(fault));
    if (report.nulls != 0)
      return unsupported(std::to_string(report.nulls) + " of " + std::to_string(requests.threads) + " requests failed");
    launch(requests.threads, place_blocks{places.data(), array.data(), packed_bytes}, config);
    for (auto const& of : {blocks.data(), places.data()}) launch(requests.threads, fill_blocks{of, num_words}, config);

    row kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}};
    // Run 0 warms up and is looked at.
    for (unsigned run = 0; run <= s.runs; ++run) {
      auto const time = [&](void* const* of) {
        return timer.time_us([&] { launch(requests.threads, read_blocks{of, sums.data(), num_words}, config); });
      };
      double const packed_us = time(places.data());
      double const heap_us = time(blocks.data());
      if (run == 0) {
        auto const found = sums.download(stream);
        for (unsigned i = 0; i < requests.threads; ++i) {
          simt::uint64_t expected = 0;
          for (simt::uint32_t w = 0; w < num_words; ++w) expected += word_of_block(i, w);
          if (found[i] != expected) return wrong("block " + std::to_string(i) + " did not keep its contents");
        }
        continue;
      }
      kernel_us.samples.push_back(heap_us);
      slowdown.samples.push_back(heap_us / packed_us);
    }
    launch(requests.threads, load_and_free<ref, equal_requests>{heap.ref(), requests, blocks.data()}, config);
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    return {outcome_status::ok, "", {std::move(kernel_us), std::move(slowdown)}};
  }
};

}  // namespace gpuheap::bench
