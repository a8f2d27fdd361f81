// leak_growth: in each round every thread asks for blocks and frees most of them; the others stay for good. The case shows how much slower
// requests and frees become when many blocks have been left behind.
#pragma once

#include "workloads/slots/slot_heap.hpp"

namespace gpuheap::bench {

struct leak_growth {
  static constexpr parameter parameters[] = {
      number_parameter("threads", "32768", 64, 1u << 24),
      number_parameter("bytes", "1024", tagged_smallest_bytes, 1u << 20),
      number_parameter("slots", "4", 1, 1u << 10),  // blocks that a thread asks for in a round
      number_parameter("rounds", "40", 4, 1u << 12),
      number_parameter("leak", "25", 0, 100),  // percent of the blocks of a round that stay
      heap_parameter,
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "leak_growth",
      .brief = "rounds of requests of which some are never freed: the rounds at the end over those at the start",
      .section = "Stress",
      .parameters = parameters,
  };

  static std::size_t slots_per_set(point const& p) { return p.number("slots") * p.number("rounds"); }
  static outcome measure(slots::slot_heap& heap, session const& s, point const& p);

  template <class A>
  static outcome run(session const& s, point const& p) {
    return slots::run_on_slots<A, leak_growth>(s, p);
  }
};

}  // namespace gpuheap::bench
