// gpuheap's allocator with one idea switched off each: what does it buy? Built with GPUHEAP_BENCH_ABLATION, for the suite `ablation`.
//
// They are baselines to the benchmark, so that no other suite takes them for allocators, and right ones all the same: what an idea saves is
// time or memory.
#pragma once

#include <gpuheap/allocators/sharded_runs.hpp>

namespace gpuheap::bench {

// An idea of the allocator: its name, one line about it, and the tuning without it.
template <class Idea>
class variation : public basic_sharded_runs<Idea::tuned> {
  using base = basic_sharded_runs<Idea::tuned>;

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
  static constexpr char const *name = "without_aggregation", *title = "each lane draws its slot alone";
  static constexpr sharded::tuning tuned{.together = false};
};
struct shards {
  static constexpr char const *name = "without_shards", *title = "one shard a class, however large the launch";
  static constexpr sharded::tuning tuned{.lg_large_launch = 31};
};
struct long_runs {
  static constexpr char const *name = "without_long_runs", *title = "runs of 4096 slots at most";
  static constexpr sharded::tuning tuned{.lg_run_slots = 12};
};
struct sweeps {
  static constexpr char const *name = "without_sweeps", *title = "listed runs are searched slot by slot, once nothing else is left";
  static constexpr sharded::tuning tuned{.adoption_looks = 0};
};
struct turns {
  static constexpr char const *name = "without_turns", *title = "listed runs are looked at from random places";
  static constexpr sharded::tuning tuned{.in_turn = false};
};
struct waiting {
  static constexpr char const *name = "without_waiting", *title = "who finds a run used up searches at once";
  static constexpr sharded::tuning tuned{.looks = 0};
};
struct memory_of_refusals {
  static constexpr char const *name = "without_memory_of_refusals", *title = "every request that fails has searched by itself";
  static constexpr sharded::tuning tuned{.remembers = false};
};
struct rewinds {
  static constexpr char const *name = "without_rewinds", *title = "a run of which nothing is live is drawn to its end all the same";
  static constexpr sharded::tuning tuned{.rewinds = false};
};
struct stock {
  static constexpr char const *name = "without_stock",
                              *title = "small launches fetch a 32nd of what the class holds, if that is more than four of them need";
  static constexpr sharded::tuning tuned{.stock = 32};
};
struct spare {
  static constexpr char const *name = "without_spare", *title = "small launches sweep old runs while fresh memory abounds";
  static constexpr sharded::tuning tuned{.spare = 0};
};

}  // namespace ideas

using without_aggregation = variation<ideas::aggregation>;
using without_shards = variation<ideas::shards>;
using without_long_runs = variation<ideas::long_runs>;
using without_sweeps = variation<ideas::sweeps>;
using without_turns = variation<ideas::turns>;
using without_waiting = variation<ideas::waiting>;
using without_memory_of_refusals = variation<ideas::memory_of_refusals>;
using without_rewinds = variation<ideas::rewinds>;
using without_stock = variation<ideas::stock>;
using without_spare = variation<ideas::spare>;

}  // namespace gpuheap::bench
