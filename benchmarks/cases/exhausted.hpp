// exhausted: the cost of requests that find no memory. A kernel of requests is timed on an empty heap, then the same kernel on a full heap,
// where all requests fail. Afterwards all blocks are freed, and the heap must serve again.
#pragma once

#include <gpuheap/allocator.hpp>

#include <string>
#include <utility>

#include "cases/alloc_single.hpp"
#include "harness/block_pile.hpp"

namespace gpuheap::bench {

struct exhausted {
  static constexpr parameter parameters[] = {threads_parameter, bytes_parameter, heap_parameter, block_threads_parameter};
  static constexpr case_description description{
      .name = "exhausted",
      .brief = "a kernel of requests that all fail in a full heap, over the same kernel when all are served",
      .section = "Memory",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
    if (A::traits.overwrites) return unsupported("this allocator overwrites live memory rather than refuse a request");
    equal_requests const requests{p.threads(), p.number("bytes")};
    if (requests.threads * requests.request_bytes > s.heap_bytes)
      return unsupported("the requests of one kernel do not fit into a heap of " + memory::format_bytes(s.heap_bytes));

    owned_stream stream;
    launch_config const config{.block_threads = p.block_threads(), .stream = stream};
    heap_under_test<A> heap(s.heap_bytes, stream);
    auto const capacity = pile_capacity(heap.bytes(), requests.request_bytes, requests.threads);
    if (auto reason = why_no_pile(capacity); !reason.empty()) return unsupported(std::move(reason));
    block_checker checker(stream);
    kernel_timer timer(stream);
    block_pile<A, equal_requests> pile(heap, requests, capacity, config);
    device_array<void*> blocks(requests.threads);
    device_array<simt::uint64_t> sizes(requests.threads);
    launch(requests.threads, write_sizes<equal_requests>{requests, sizes.data()}, config);
    block_list const list{blocks.data(), sizes.data(), requests.threads};
    auto const time_requests = [&] {
      return timer.time_us([&] {
        launch(requests.threads,
               malloc_and_store<typename heap_under_test<A>::ref_type, equal_requests>{heap.ref(), requests, blocks.data()}, config);
      });
    };
    auto const deallocate = [&] {
      if (A::traits.free == frees::never) return heap.renew();
      launch(requests.threads, load_and_free<typename heap_under_test<A>::ref_type, equal_requests>{heap.ref(), requests, blocks.data()},
             config);
    };

    row malloc_us{"malloc_us", "us", {}}, kernel_us{"kernel_us", "us", {}}, slowdown{"slowdown", "ratio", {}};
    // Run 0 warms up and checks whole blocks. Each run begins on what the one before gave back; the last one only looks whether that
    // serves.
    for (unsigned run = 0; run <= s.runs + 1; ++run) {
      double const served_us = time_requests();
      auto const served = checker.inspect(list, A::traits.min_alignment, heap.range());
      if (auto fault = served.fault(A::traits.min_alignment); !fault.empty()) return wrong("run " + std::to_string(run) + ": " + fault);
      if (served.failed_requests != 0) {
        auto const how_many = std::to_string(served.failed_requests) + " of " + std::to_string(requests.threads) + " requests failed";
        return run == 0 ? unsupported(how_many + " in the empty heap: make it larger")
                        : wrong(how_many + " after everything had been given back");
      }
      deallocate();
      if (run > s.runs) break;
      // Until a whole kernel got nothing.
      for (pile_tally before, now; before.failed_requests == 0 || now.failed_requests - before.failed_requests != requests.threads;) {
        if (pile.room() < requests.threads) return wrong("the allocator returned more blocks than fit into the heap");
        before = now;
        now = pile.add(requests.threads);
      }
      if (auto fault = pile.fault(checker, run == 0, run); !fault.empty()) return wrong("run " + std::to_string(run) + ": " + fault);
      double const failed_us = time_requests();
      if (auto const failed = checker.inspect(list, 1, {}); failed.failed_requests != requests.threads) {
        return wrong(std::to_string(requests.threads - failed.failed_requests) +
                     " requests were served right after as many had failed, with no free in between");
      }
      pile.deallocate();
      if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
      if (run == 0) continue;
      malloc_us.samples.push_back(served_us);
      kernel_us.samples.push_back(failed_us);
      slowdown.samples.push_back(failed_us / served_us);
    }
    return {outcome_status::ok, "", {std::move(malloc_us), std::move(kernel_us), std::move(slowdown)}};
  }
};

}  // namespace gpuheap::bench
