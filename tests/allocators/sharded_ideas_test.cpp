// The default allocator, each time without one of its ideas or with one more, as the suite `ablation` measures it: slower or more wasteful,
// but correct.
#include "sharded_churn.hpp"

#include "../../benchmarks/ablation/ideas.hpp"

namespace sharded_test {
namespace {

namespace bench = gpuheap::bench;

template <class Allocator>
class ShardedIdeas : public ::testing::Test {};

using all = ::testing::Types<bench::without_aggregation, bench::without_shards, bench::without_long_spans, bench::without_reuse,
                             bench::without_cursor, bench::without_waiting, bench::without_memory_of_refusals, bench::without_resets,
                             bench::without_held_share, bench::without_take_over, bench::without_unused_first, bench::without_borrowing,
                             bench::with_prepared_spans>;
TYPED_TEST_SUITE(ShardedIdeas, all);

TYPED_TEST(ShardedIdeas, AreAllocatorsWithoutTheOne) {
  static_assert(gpuheap::device_allocator<TypeParam>);
  EXPECT_STRNE(TypeParam::traits.name, plain::traits.name);
  explore_mix<TypeParam>({TypeParam::traits.title, 192 << 10, 96, 4, 4, 1, 2000});
}

}  // namespace
}  // namespace sharded_test
