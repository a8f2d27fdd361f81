// phase_change: a program whose phases each use the heap for sizes of their own, four phases in turn. Memory that one phase has given back
// must serve the next one's sizes; the live bytes are the same in all.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct phase_change {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "16384", 64, 1u << 24),
      number_parameter("bytes", "8192", 4096, 1u << 20),  // of the first phase: the largest
      number_parameter("slots", "4", 1, 1u << 8),         // blocks of a thread in the first phase, four times as many in each of the next
      number_parameter("rounds", "5", 2, 1u << 10),       // of four phases
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "phase_change",
      .brief = "phases that use the same heap for sizes four times smaller each, then for the first ones again",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return p.number("slots") << 6; }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, phase_change>(s, p);
  }
};

}  // namespace gpuheap::bench
