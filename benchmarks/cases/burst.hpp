// burst: all threads allocate at once until much is live, a random half is freed, and requests of other sizes have to find room in the
// gaps.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct burst {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "65536", 64, 1u << 24),
      number_parameter("bytes", "512", tagged_smallest_bytes, 1u << 20),  // of the first burst: the largest
      number_parameter("then", "4096", tagged_smallest_bytes, 1u << 20),  // of the second
      number_parameter("slots", "16", 1, 1u << 12),                       // blocks of a thread in the first burst
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "burst",
      .brief = "a burst of requests, a random half freed, then a burst of other sizes into the gaps",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return p.number("slots"); }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, burst>(s, p);
  }
};

}  // namespace gpuheap::bench
