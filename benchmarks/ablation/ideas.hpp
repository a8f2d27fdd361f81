// The default allocator, each time without one of its ideas, or with one more, to measure what the idea is worth. Built with
// GPUHEAP_BENCH_ABLATION, for the suite `ablation`.
//
// The variants are baselines to the benchmark, so that no other suite takes them for allocators. They are correct all the same: an idea
// saves only time or memory.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>

namespace gpuheap::bench {

// An idea of the allocator: its name, one line about it, and the tuning without it or with it.
template <class Idea>
class variation : public basic_sharded_spans<Idea> {
  using base = basic_sharded_spans<Idea>;

 public:
  static constexpr bool is_baseline = true;
  static constexpr allocator_traits traits = [] {
    allocator_traits t = base::traits;
    t.name = Idea::name;
    t.title = Idea::title;
    t.variant = "for measurements of single ideas";
    return t;
  }();

  variation() = default;
  explicit variation(base const &heap) : base{heap} {}
#if GPUHEAP_HAS_HOST
  [[nodiscard]] static variation create(memory::region where, stream_ref stream) { return variation{base::create(where, stream)}; }
  [[nodiscard]] static variation create_growable(memory::region whole, simt::size_t initial_bytes, memory::map_function const &map,
                                                 stream_ref stream) {
    return variation{base::create_growable(whole, initial_bytes, map, stream)};
  }
#endif
};

namespace ideas {

struct aggregation {
  static constexpr char const *name = "without_aggregation", *title = "each lane claims its slot alone";
  static constexpr sharded::tuning tuned{.aggregates = false};
};
struct shards {
  static constexpr char const *name = "without_shards", *title = "one shard a class, however large the launch";
  static constexpr sharded::tuning tuned{.lg_large_launch = 31};
};
struct long_spans {
  static constexpr char const *name = "without_long_spans", *title = "spans of 4096 slots at most";
  static constexpr sharded::tuning tuned{.lg_span_slots = 12};
};
struct reuse {
  static constexpr char const *name = "without_reuse", *title = "partial spans are scanned slot by slot, once nothing else is left";
  static constexpr sharded::tuning tuned{.partial_samples = 0};
};
struct cursor {
  static constexpr char const *name = "without_cursor", *title = "partial spans are sampled from random places";
  static constexpr sharded::tuning tuned{.uses_cursor = false};
};
struct waiting {
  static constexpr char const *name = "without_waiting", *title = "a warp that finds a span used up searches at once";
  static constexpr sharded::tuning tuned{.wait_polls = 0};
};
struct memory_of_refusals {
  static constexpr char const *name = "without_memory_of_refusals", *title = "every request that fails has searched by itself";
  static constexpr sharded::tuning tuned{.remembers_refusals = false};
};
struct resets {
  static constexpr char const *name = "without_resets", *title = "a span of which nothing is live is claimed to its end";
  static constexpr sharded::tuning tuned{.resets = false};
};
struct held_share {
  static constexpr char const
      *name = "without_held_share",
      *title = "small launches take a 32nd of what their class holds, and not all of it, if that is more than four of them need";
  static constexpr sharded::tuning tuned{.held_divisor = 32};
};
struct take_over {
  static constexpr char const *name = "without_take_over",
                              *title = "idle spans of other classes stay theirs, until a search finds no memory";
  static constexpr sharded::tuning tuned{.take_over_divisor = 0};
};
struct unused_first {
  static constexpr char const *name = "without_unused_first", *title = "small launches reuse partial spans though unused memory abounds";
  static constexpr sharded::tuning tuned{.ample_eighths = 0};
};
struct borrowing {
  static constexpr char const *name = "without_borrowing", *title = "a request of a small launch waits while its own class is refilled";
  static constexpr sharded::tuning tuned{.borrows = false};
};
struct prepared_spans {
  static constexpr char const *name = "with_prepared_spans", *title = "a heap begins with a span for each size class up to 8 KiB";
  static constexpr sharded::tuning tuned{.prepares = true};
};

}  // namespace ideas

using without_aggregation = variation<ideas::aggregation>;
using without_shards = variation<ideas::shards>;
using without_long_spans = variation<ideas::long_spans>;
using without_reuse = variation<ideas::reuse>;
using without_cursor = variation<ideas::cursor>;
using without_waiting = variation<ideas::waiting>;
using without_memory_of_refusals = variation<ideas::memory_of_refusals>;
using without_resets = variation<ideas::resets>;
using without_held_share = variation<ideas::held_share>;
using without_take_over = variation<ideas::take_over>;
using without_unused_first = variation<ideas::unused_first>;
using without_borrowing = variation<ideas::borrowing>;
using with_prepared_spans = variation<ideas::prepared_spans>;

}  // namespace gpuheap::bench
