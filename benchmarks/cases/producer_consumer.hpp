// producer_consumer: thread blocks with even numbers only ask; those with odd numbers only free the blocks that the former got in the
// kernel before. Both kinds run in the same kernel.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct producer_consumer {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "131072", 64, 1u << 24),  // half of them producers
      number_parameter("bytes", "1024", tagged_smallest_bytes, 1u << 20),
      number_parameter("slots", "16", 1, 1u << 12),  // blocks that a producer makes in a kernel
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "producer_consumer",
      .brief = "every second block only allocates, and the others free what those allocated in the kernel before",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return 2 * p.number("slots"); }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, producer_consumer>(s, p);
  }
};

}  // namespace gpuheap::bench
