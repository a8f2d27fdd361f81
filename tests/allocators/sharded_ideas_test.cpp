// Our allocator with one idea switched off each, as the suite `ablation` measures it: slower or more wasteful, and right.
#include "sharded_churn.hpp"

#include "../../benchmarks/ablation/without.hpp"

namespace sharded_test {
namespace {

namespace bench = gpuheap::bench;

template <class Allocator>
class ShardedIdeas : public ::testing::Test {};

using all = ::testing::Types<bench::without_aggregation, bench::without_shards, bench::without_foresight, bench::without_long_runs,
                             bench::without_renewal, bench::without_sweeps, bench::without_turns, bench::without_waiting,
                             bench::without_memory_of_refusals>;
TYPED_TEST_SUITE(ShardedIdeas, all);

TYPED_TEST(ShardedIdeas, AreAllocatorsWithoutTheOne) {
  static_assert(gpuheap::device_allocator<TypeParam>);
  EXPECT_STRNE(TypeParam::traits.name, plain::traits.name);
  explore_mix<TypeParam>({TypeParam::traits.title, 192 << 10, 96, 4, 4, 1, 2000});
}

}  // namespace
}  // namespace sharded_test
