// The groups of cooperative_groups, handed to the collective calls as they are.
#include "../fixtures.hpp"

#include <cooperative_groups.h>

#include <set>

namespace {

using namespace test;
namespace cg = cooperative_groups;
using heap_t = gpuheap::heap<>;
using ref_t = heap_t::ref_type;

static_assert(gpuheap::shuffling_group<cg::thread_block_tile<16>> && gpuheap::shuffling_group<cg::coalesced_group>);
static_assert(gpuheap::cooperative_group<cg::thread_block> && !gpuheap::shuffling_group<cg::thread_block>);

// A shared block and a piece for each thread; the pieces are freed.
template <class Group>
__device__ void use(ref_t heap, Group const& group, void** shared, void** pieces) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[i] = heap.malloc(group, 100);
  pieces[i] = heap.malloc_each(group, 16 + i % 5);
  (void)heap.free(group, pieces[i]);
}

__global__ void by_tiles(ref_t heap, void** shared, void** pieces) {
  use(heap, cg::tiled_partition<16>(cg::this_thread_block()), shared, pieces);
}
__global__ void by_coalesced(ref_t heap, void** shared, void** pieces) {
  if (threadIdx.x % 2 == 0) {
    use(heap, cg::coalesced_threads(), shared, pieces);
  } else {
    use(heap, cg::coalesced_threads(), shared, pieces);
  }
}
__global__ void by_blocks(ref_t heap, void** shared, void** pieces) {
  __shared__ gpuheap::block_scratch scratch;
  use(heap, gpuheap::this_block(cg::this_thread_block(), scratch), shared, pieces);
}

void expect_served(void (*kernel)(ref_t, void**, void**), std::size_t most_blocks) {
  heap_t heap{64_MiB};
  device_array<void*> shared(1024), pieces(1024);
  kernel<<<4, 256>>>(heap.ref(), shared.data(), pieces.data());
  heap.check();
  std::set<void*> blocks;
  for (void* p : shared.read()) blocks.insert(p);
  std::set<void*> apart;
  for (void* p : pieces.read()) apart.insert(p);
  EXPECT_EQ(blocks.count(nullptr) + apart.count(nullptr), 0u);
  EXPECT_LE(blocks.size(), most_blocks);
  EXPECT_EQ(heap.stats().live_allocations, blocks.size());
}

TEST(CooperativeGroups, Tiles) { expect_served(by_tiles, 64); }
TEST(CooperativeGroups, CoalescedGroups) { expect_served(by_coalesced, 1024); }
TEST(CooperativeGroups, Blocks) { expect_served(by_blocks, 4); }

}  // namespace
