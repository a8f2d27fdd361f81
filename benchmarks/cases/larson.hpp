// larson: the device's form of Larson and Krishnan's server simulation (ISMM 1998). Every thread replaces random blocks among those that it
// has taken over, and leaves its blocks to a thread of another thread block in the next kernel. So most blocks that it frees were allocated
// by another thread block.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct larson {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "65536", 64, 1u << 24),
      number_parameter("bytes", "1024", tagged_smallest_bytes, 1u << 20),
      number_parameter("slots", "16", 1, 1u << 12),   // blocks that a thread inherits
      number_parameter("rounds", "32", 1, 1u << 16),  // replacements by each thread of a generation
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "larson",
      .brief = "each thread replaces random blocks among those that a thread of another block left to it, generation after generation",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return p.number("slots"); }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, larson>(s, p);
  }
};

}  // namespace gpuheap::bench
