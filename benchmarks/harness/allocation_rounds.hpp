// The common part of the alloc_* cases: rounds of one kernel in which threads allocate memory, and one in which they free it.
//
// A round:  [make a new heap]  malloc kernel (timed)  look at every address  [write and read back every block]  free kernel (timed)
// A new heap is made if the point says state=cold, and for allocators that never reuse memory. Contents are checked in the first round and
// in one after the timed ones, not in between: writing gigabytes would leave the caches of the next kernel in a state that no program
// needs.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/launch.hpp>

#include <string>
#include <utility>

#include "harness/baseline.hpp"
#include "harness/block_check.hpp"
#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/free_or_release.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/kernel_timer.hpp"
#include "harness/pace.hpp"

namespace gpuheap::bench {

// A `Requests` describes which threads allocate, and how much:
//   unsigned threads                               of the launch
//   static constexpr unsigned threads_per_request  1: every thread allocates; 32: the first lane of each warp
//   GPUHEAP_HD uint64_t bytes(unsigned request)    of each request
//   uint64_t largest_bytes() const                 host; no request is larger
//   unsigned per_thread                            optional: the number of a thread's requests: r, r + threads, ...; each thread allocates
//                                                  then
template <class Requests>
concept repeats = requires(Requests const& requests) {
  requests.per_thread;
};

template <class Requests>
[[nodiscard]] unsigned num_requests(Requests const& requests) {
  if constexpr (repeats<Requests>) {
    return requests.threads * requests.per_thread;
  } else {
    return static_cast<unsigned>(simt::ceil_div(requests.threads, Requests::threads_per_request));
  }
}

template <class Requests, class Weight>
[[nodiscard]] simt::uint64_t sum_over_requests(Requests const& requests, Weight weight) {
  simt::uint64_t sum = 0;
  for (unsigned r = 0; r < num_requests(requests); ++r) sum += weight(requests.bytes(r));
  return sum;
}
// An upper bound of the bytes that an allocator without size classes takes for them: a header and rounding of 16 bytes each.
template <class Requests>
[[nodiscard]] simt::uint64_t most_bytes_taken(Requests const& requests) {
  return sum_over_requests(requests, [](simt::uint64_t bytes) { return simt::round_up_pow2(bytes, 16) + 16; });
}

// The timed kernels: one request and one store, one load and one free.
template <class Ref, class Requests>
struct malloc_and_store {
  Ref heap;
  Requests requests;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned thread) const {
    if (thread % Requests::threads_per_request != 0) return;
    if constexpr (repeats<Requests>) {
      for (unsigned k = 0; k < requests.per_thread; ++k) ask(k * requests.threads + thread);
    } else {
      ask(thread / Requests::threads_per_request);
    }
  }
  GPUHEAP_FN void ask(unsigned request) const { blocks[request] = heap.malloc(requests.bytes(request)); }
};
template <class Ref, class Requests>
struct load_and_free {
  Ref heap;
  Requests requests;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned thread) const {
    if (thread % Requests::threads_per_request != 0) return;
    if constexpr (!repeats<Requests>) {
      free_or_release(heap, blocks[thread / Requests::threads_per_request]);
    } else if constexpr (has_release_warp<typename Ref::allocator_type>) {
      free_or_release(heap, nullptr);
    } else {
      for (unsigned k = 0; k < requests.per_thread; ++k) free_or_release(heap, blocks[k * requests.threads + thread]);
    }
  }
};
template <class Requests>
struct write_sizes {
  Requests requests;
  simt::uint64_t* sizes;
  GPUHEAP_FN void operator()(unsigned request) const { sizes[request] = requests.bytes(request); }
};

// Why these requests cannot be made of A in this session, or "".
template <class A, class Requests>
[[nodiscard]] std::string why_not_allocate(session const& s, point const& p, Requests const& requests) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return reason;
  if (A::traits.process_wide && p.text("state") == "cold" && !s.first_run) return no_second_heap;
  simt::uint64_t const asked = sum_over_requests(requests, [](simt::uint64_t bytes) { return bytes; });
  if (asked > s.heap_bytes)
    return "the requests add up to " + memory::format_bytes(asked) + ", more than the heap of " + memory::format_bytes(s.heap_bytes);
  return "";
}

// Why blocks of the point's size cannot run one of these kernels, or "": they are compiled as a program compiles its own, without a bound
// on registers.
template <class... Kernels>
[[nodiscard]] std::string why_no_launch(point const& p) {
  if (((simt::most_resident_threads<Kernels>(p.block_threads()) != 0) && ...)) return "";
  return "the kernels have too many registers for blocks of " + p.text("block_threads") + " threads";
}

// A kernel as the compiler makes it.
template <class Kernel>
using as_it_is = Kernel;

// `As`: a template that makes, of each timed kernel, the type that is launched.
template <class A, class Requests, template <class> class As = as_it_is>
[[nodiscard]] outcome run_allocation_rounds(session const& s, point const& p, Requests const& requests) {
  if (auto reason = why_not_allocate<A>(s, p, requests); !reason.empty()) return unsupported(std::move(reason));
  bool const fresh_heaps = p.text("state") == "cold" || A::traits.free == frees::never;
  // An allocator that overwrites live blocks by design does so once it has gone through its heap.
  bool const contents_last = hands_out_memory<A>() && (!A::traits.overwrites || most_bytes_taken(requests) <= s.heap_bytes);
  constexpr double slow_round_s = 0.2;  // one of which is warm-up enough

  using ref = typename heap_under_test<A>::ref_type;
  using asking = As<malloc_and_store<ref, Requests>>;
  using freeing = As<load_and_free<ref, Requests>>;
  owned_stream stream;
  heap_under_test<A> heap(s.heap_bytes, stream);
  // Not before the heap is there: asking loads the kernels, and with them a heap of the process.
  if (auto reason = why_no_launch<asking, freeing>(p); !reason.empty()) return unsupported(std::move(reason));
  launch_config const config{.block_threads = p.block_threads(), .stream = stream};
  unsigned const count = num_requests(requests);
  device_array<void*> blocks(count);
  device_array<simt::uint64_t> sizes(count);
  launch(count, write_sizes<Requests>{requests, sizes.data()}, config);
  block_list const list{blocks.data(), sizes.data(), count};
  block_checker checker(stream);
  kernel_timer timer(stream);

  row malloc_us{"malloc_us", "us", {}}, free_us{"free_us", "us", {}}, failed_requests{"failed_requests", "count", {}};
  pace const timing(s);
  unsigned warm_up_rounds = s.first_run ? 0 : 2;
  if (s.first_run) (void)timer.time_us([&] { launch(count, write_sizes<Requests>{requests, sizes.data()}, config); });
  bool last = false;  // the round after the timed ones
  for (unsigned round = 0; !last; ++round) {
    if (round == 1 && timing.seconds() >= slow_round_s) warm_up_rounds = 1;
    std::size_t const runs = malloc_us.samples.size();
    last = timing.enough(runs);
    unsigned const uncounted = 1 + (warm_up_rounds > round ? warm_up_rounds - round : 0);
    if (auto reason = timing.too_slow(round, static_cast<double>(timing.lacking(runs) + uncounted)); !reason.empty() && !last)
      return timed_out(std::move(reason));
    if (fresh_heaps && round != 0) heap.renew();
    double const malloc_time = timer.time_us([&] {
      launch(requests.threads, asking{malloc_and_store<ref, Requests>{heap.ref(), requests, blocks.data()}}, config);
    });

    auto const report = checker.inspect(list, A::traits.min_alignment, hands_out_memory<A>() ? heap.range() : memory::region{});
    if (auto fault = report.fault(A::traits.min_alignment); !fault.empty()) return wrong("round " + std::to_string(round) + ": " + fault);
    if (contents_last && !s.first_run && (round == 0 || last)) {
      auto const lost = checker.count_lost(list, requests.largest_bytes(), round);
      if (lost != 0)
        return wrong("round " + std::to_string(round) + ": " + std::to_string(lost) + " words did not keep their contents: blocks overlap");
    }

    double const free_time = timer.time_us([&] {
      launch(requests.threads, freeing{load_and_free<ref, Requests>{heap.ref(), requests, blocks.data()}}, config);
    });
    if (round >= warm_up_rounds && !last) {
      malloc_us.samples.push_back(malloc_time);
      free_us.samples.push_back(free_time);
      failed_requests.samples.push_back(static_cast<double>(report.failed_requests));
      if (s.first_run) break;
    }
  }
  if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
  return {outcome_status::ok, "", {std::move(malloc_us), std::move(free_us), std::move(failed_requests)}};
}

}  // namespace gpuheap::bench
