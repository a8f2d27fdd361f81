// Chunks claimed several at once: blocks are apart, every place is found, every block ends once.
#include "chunk_map_checks.hpp"

namespace structures_test {

// Kernel, one thread: what happens to a map step by step.
struct chunk_map_steps {
  chunk_map map;
  unsigned* seen;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned at = 0;
    auto const note = [&](unsigned value) { seen[at++] = value; };
    note(map.claim(8, 8));   // 1
    note(map.claim(12, 1));  // 0
    note(map.claim(4, 4));   // 1
    note(map.claim(0, 8));   // 0, and takes nothing
    note(map.claim(0, 4));   // 1
    map.mark(8, 8);
    note(map.count_at(8));                                    // 8
    note(map.count_at(9));                                    // 0
    note(map.unmark(9).count * 2 + map.unmark(9).has_begun);  // 0
    note(map.unmark(8).count);                                // 8
    note(map.unmark(8).count * 2 + map.unmark(8).has_begun);  // 1
    map.release(8, 8);
    note(map.claim(8, 1));  // 1
    map.mark(8, 1);
    note(map.count_at(8));             // 1
    note(map.claim_any(100, 8, 120));  // the first place of that word: 64
    for (unsigned first = 72; first < 112; first += 8) (void)map.claim(first, 8);
    note(map.claim_any(119, 1, 120));  // 112
    (void)map.claim(113, 1);
    (void)map.claim(114, 2);
    (void)map.claim(116, 4);
    note(map.claim_any(119, 1, 120));  // around, to the first free one: 9
  }
};

namespace {

TEST(ChunkMap, DoesWhatItSays) {
  chunk_map_memory memory(120);
  test::device_array<unsigned> seen(15);
  gpuheap::launch(1, chunk_map_steps{memory.view<chunk_map>(), seen.data()});
  EXPECT_EQ(seen.read(), (std::vector<unsigned>{1, 0, 1, 0, 1, 8, 0, 0, 8, 1, 1, 1, 64, 112, 9}));
}

TEST(ChunkMap, EveryPlaceIsFound) {
  for (unsigned num_chunks : {8u, 56u, 64u, 72u, 128u, 1000u}) {
    for (unsigned count : {1u, 2u, 4u, 8u}) {
      EXPECT_EQ(all_places_are_found<chunk_map>(num_chunks, count), "") << num_chunks << " chunks, " << count << " each";
    }
  }
  expect_passes(500, [] { return all_places_are_found<chunk_map>(explored_threads, 1); });
}

TEST(ChunkMap, BlocksAreApart) {
  EXPECT_EQ(blocks_are_apart<chunk_map>(many_threads, 1024, 20), "");
  expect_passes(1000, [] { return blocks_are_apart<chunk_map>(explored_threads, 24, 4); });
}

TEST(ChunkMap, ABlockEndsOnce) {
  EXPECT_EQ(a_block_ends_once<chunk_map>(2048), "");
  expect_passes(500, [] { return a_block_ends_once<chunk_map>(40); });
}

}  // namespace
}  // namespace structures_test
