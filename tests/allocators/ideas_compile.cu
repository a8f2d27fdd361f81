// nvcc compiles the policy of every variant of the default allocator, and reports what g++ lets pass, such as a division by a tuning of 0.
// Compiled, not run: each whole variant is compiled in a build with GPUHEAP_BENCH_ABLATION.
#include "benchmarks/ablation/ideas.hpp"

namespace gpuheap::bench {

template <class... Ideas>
GPUHEAP_FN unsigned plans(sharded::refill_input const& in) {
  return (0u + ... + sharded::plan_refill<Ideas::tuned>(in).pages);
}

__global__ void plans_of_all(sharded::refill_input in, unsigned* out) {
  using namespace ideas;
  *out = plans<aggregation, shards, long_spans, reuse, cursor, waiting, memory_of_refusals, resets, held_share, take_over, unused_first,
               borrowing, prepared_spans>(in);
}

}  // namespace gpuheap::bench
