// soak: a long time of everything: replacements, fills, drains, blocks that change hands, sizes from 16 bytes to far too many for the heap,
// all contents checked. Every so often everything is freed: then the heap must be empty, whole, and as fast as at first.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct soak {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "65536", 64, 1u << 24),
      number_parameter("bytes", "65536", 1024, 1u << 26),  // the largest request; each launch draws a power of two up to it
      number_parameter("slots", "16", 1, 1u << 8),         // blocks of a thread
      number_parameter("seconds", "600", 1, 7 * 86400),    // in as many parts as there are runs
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "soak",
      .brief =
          "requests of all sizes for a long time, with phases in which memory runs out; at intervals all blocks are freed, and the heap "
          "must be as at the start",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return p.number("slots"); }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, soak>(s, p);
  }
};

}  // namespace gpuheap::bench
