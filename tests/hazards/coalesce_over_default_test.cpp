// The coalescing allocators over the default one. A file of their own, so that a change of the default allocator compiles no other hazard
// again.
#include "coalesce_checks.hpp"

#include <gpuheap/allocators/sharded_spans.hpp>

namespace {

using namespace hazards;

template <coalesce_group Group, coalesce_link Link>
using variant = gpuheap::basic_coalesce<coalesce_config{.group = Group, .link = Link, .map_percent = 20}, gpuheap::sharded_spans>;
using variants = ::testing::Types<variant<coalesce_group::block, coalesce_link::header>, variant<coalesce_group::block, coalesce_link::map>,
                                  variant<coalesce_group::warp, coalesce_link::header>, variant<coalesce_group::warp, coalesce_link::map>>;
template <class A>
class CoalesceOverTheDefault : public ::testing::Test {};
TYPED_TEST_SUITE(CoalesceOverTheDefault, variants);

TYPED_TEST(CoalesceOverTheDefault, Serves) {
  gpuheap::heap<TypeParam> heap{64_MiB};
  for (unsigned round = 0; round < 2; ++round) {
    blocks_in<TypeParam> b(heap.ref(), 700, 400), plain(heap.ref(), 700, 100);
    malloc_all_by_blocks(b, heap, 256);
    plain.malloc_all();
    EXPECT_EQ(b.failed_requests() + plain.failed_requests(), 0u);
    b.fill();
    plain.fill();
    b.expect_intact("over the default allocator");
    plain.expect_intact("over the default allocator");
    EXPECT_TRUE(heap.verify().problem.empty());
    b.free_all(11);
    plain.free_all(11);
    EXPECT_EQ(heap.stats().live_allocations, 0u);
  }
}

TEST(CoalesceDynamicOverTheDefault, Serves) {
  using over_ours = gpuheap::coalesce_dynamic_over<gpuheap::sharded_spans>;
  gpuheap::heap<over_ours> heap{64_MiB};
  blocks_in<over_ours> b(heap.ref(), 1000, 400);
  b.malloc_all();
  EXPECT_EQ(b.failed_requests(), 0u);
  b.fill();
  b.expect_intact("over the default allocator");
  b.free_all(11);
  EXPECT_TRUE(heap.verify().problem.empty());
  EXPECT_EQ(heap.stats().live_allocations, 0u);
}

}  // namespace
