// The six Ouroboros allocators, contended on heaps that run full, under many schedules; audited after each launch.
#include "ouroboros_heaps.hpp"

namespace {

using namespace hazards;

template <class Heap>
void explore_a_mix() {
  std::string problem;
  auto const result = simt::explore(num_seeds(2000), [&problem] {
    problem = mistakes_of_a_mix<Heap>(75, 4, 4);
    return problem.empty();
  });
  EXPECT_TRUE(result) << problem << "\n" << result.what << ", seed " << result.seed;
}
TEST(OuroborosMix, PagesInStaticRings) { explore_a_mix<small_heap<queue_of::pages, stored_in::static_ring>>(); }
TEST(OuroborosMix, PagesInVirtualArrays) { explore_a_mix<small_heap<queue_of::pages, stored_in::virtual_array>>(); }
TEST(OuroborosMix, PagesInVirtualLists) { explore_a_mix<small_heap<queue_of::pages, stored_in::virtual_list>>(); }
TEST(OuroborosMix, ChunksInStaticRings) { explore_a_mix<small_heap<queue_of::chunks, stored_in::static_ring>>(); }
TEST(OuroborosMix, ChunksInVirtualArrays) { explore_a_mix<small_heap<queue_of::chunks, stored_in::virtual_array>>(); }
TEST(OuroborosMix, ChunksInVirtualLists) { explore_a_mix<small_heap<queue_of::chunks, stored_in::virtual_list>>(); }

}  // namespace
