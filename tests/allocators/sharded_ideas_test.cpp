// Our allocator with one idea switched off each, as the suite `ablation` measures it: slower or more wasteful, and right.
#include "sharded_churn.hpp"

#include "../../benchmarks/ablation/without.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace sharded_test {
namespace {

namespace bench = gpuheap::bench;

template <class Allocator>
class ShardedIdeas : public ::testing::Test {};

using all = ::testing::Types<bench::without_aggregation, bench::without_shards, bench::without_foresight, bench::without_long_runs,
                             bench::without_renewal, bench::without_sweeps, bench::without_turns, bench::without_waiting,
                             bench::without_memory_of_refusals, bench::without_rewinds>;
TYPED_TEST_SUITE(ShardedIdeas, all);

TYPED_TEST(ShardedIdeas, AreAllocatorsWithoutTheOne) {
  static_assert(gpuheap::device_allocator<TypeParam>);
  EXPECT_STRNE(TypeParam::traits.name, plain::traits.name);
  explore_mix<TypeParam>({TypeParam::traits.title, 192 << 10, 96, 4, 4, 1, 2000});
}

// ---- in a hurry

template <bool Rewinds>
using in_a_hurry = gpuheap::basic_sharded_runs<gpuheap::sharded::tuning{
    .lg_run_slots = 7, .guide = 4, .ahead = 1, .adoption_tries = 3, .lg_warps_per_shard = 0, .looks = 2, .rewinds = Rewinds}>;
template <bool Rewinds>
using unhurried = gpuheap::basic_sharded_runs<gpuheap::sharded::tuning{.rewinds = Rewinds}>;

TEST(ShardedRewind, BesideDrawsAndSweeps) { explore_mix<in_a_hurry<true>>({"rewinding", 192 << 10, 128, 12, 4, 200, 4000}); }
TEST(ShardedRewind, OneClass) { explore_mix<in_a_hurry<true>>({"rewinding one class", 160 << 10, 96, 16, 2, 512, 512}); }
TEST(ShardedRewind, SmallSlots) { explore_mix<in_a_hurry<true>>({"rewinding small slots", 256 << 10, 160, 12, 2, 16, 64}); }

template <class Allocator>
struct take_all {
  Allocator heap;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(16); }
};
// Gives back what the threads from `from` on have.
template <class Allocator>
struct give_back_from {
  Allocator heap;
  void** blocks;
  unsigned from;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i >= from && heap.free(blocks[i]) != gpuheap::free_status::done) count(*refused);
  }
};

// Takes all and gives back those from `from` on, a few times over, in runs of several groups. Returns how far the second launch's lowest
// block lies behind the first's.
template <class Allocator>
std::ptrdiff_t second_after_first(unsigned from) {
  constexpr unsigned num_threads = 6000;
  fixed_heap<Allocator> heap{4 << 20};
  std::ptrdiff_t behind = 0;
  void* lowest = nullptr;
  unsigned refused = 0;
  for (unsigned round = 0; round < 6; ++round) {
    std::vector<void*> blocks(num_threads);
    gpuheap::launch(num_threads, take_all<Allocator>{heap.view, blocks.data()}, {.block_threads = 96});
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    void* const here = *std::min_element(blocks.begin(), blocks.end());
    if (round == 0) lowest = here;
    if (round == 1) behind = static_cast<char*>(here) - static_cast<char*>(lowest);
    gpuheap::launch(num_threads, give_back_from<Allocator>{heap.view, blocks.data(), from, &refused}, {.block_threads = 96});
    auto const found = heap.view.verify();
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.live_slots, (round + 1) * from);
  }
  EXPECT_EQ(refused, 0u);
  return behind;
}

TEST(ShardedRewind, TheNextLaunchBeginsWhereTheFirstDid) {
  EXPECT_EQ(second_after_first<unhurried<true>>(0), 0);
  EXPECT_NE(second_after_first<unhurried<false>>(0), 0);
}
TEST(ShardedRewind, NotWhileABlockIsLive) { EXPECT_NE(second_after_first<unhurried<true>>(1), 0); }

// Every third lane asks for another class.
template <class Allocator>
struct take_two_classes {
  Allocator heap;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = heap.malloc(i % 3 == 0 ? 32 : 16); }
};

TEST(ShardedRewind, TwoRunsOfAWarpSideBySide) {
  using allocator = gpuheap::basic_sharded_runs<gpuheap::sharded::tuning{.guide = 64}>;
  constexpr unsigned num_threads = 4200;
  fixed_heap<allocator> heap{4 << 20};
  std::vector<void*> first(num_threads), blocks(num_threads);
  unsigned refused = 0;
  for (unsigned round = 0; round < 4; ++round) {
    gpuheap::launch(num_threads, take_two_classes<allocator>{heap.view, blocks.data()}, {.block_threads = 96});
    if (round == 0) first = blocks;
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()), std::set<void*>(first.begin(), first.end()));
    gpuheap::launch(num_threads, give_back_from<allocator>{heap.view, blocks.data(), 0, &refused}, {.block_threads = 96});
    EXPECT_EQ(heap.view.verify().problem, "");
  }
  EXPECT_EQ(refused, 0u);
}

}  // namespace
}  // namespace sharded_test
