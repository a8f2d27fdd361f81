// Groups of lanes: their members, their order, and the leader's value when the warp has diverged.
#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/warp_group.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::warp_group;

// The path of thread i: it leaves before groups are formed, or takes one of two ways; and its request.
enum class way { none, left, right };
[[nodiscard]] GPUHEAP_HD inline way way_of(unsigned i) {
  simt::uint64_t const draw = test::mix(i + 1) % 8;
  return draw == 0 ? way::none : draw < 4 ? way::left : way::right;
}
// 64-bit keys differ in their high halves only.
template <class Key>
[[nodiscard]] GPUHEAP_HD Key key_of(unsigned i, unsigned num_keys) {
  return static_cast<Key>(test::mix(i + 77) % num_keys) << (sizeof(Key) * 8 - 8);
}
template <class Key>
[[nodiscard]] GPUHEAP_HD unsigned index_of(Key key) {
  return static_cast<unsigned>(key >> (sizeof(Key) * 8 - 8));
}

// Kernel: each thread draws a number from its key's counter, one addition for each group. Blocks are whole warps.
template <class Key>
struct draw_by_key {
  unsigned num_keys;
  unsigned* counters;  // by key
  unsigned* numbers;   // by thread: the number drawn + 1
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned i) const {
    switch (way_of(i)) {
      case way::none:
        break;
      case way::left:
        draw(i);
        break;
      case way::right:
        draw(i);
        break;
    }
  }
  GPUHEAP_FN void draw(unsigned i) const {
    simt::lane_mask const here = simt::active_mask();
    Key const key = key_of<Key>(i, num_keys);
    warp_group const g = warp_group::of_equal(here, key);
    check(i, here, key, g);
    simt::uint64_t const mine = simt::lane_mask{1} << simt::lane_id();
    if (gpuheap::structures::reduce_or(g.mask, mine << 32 | (mine & 0x55555555)) != (simt::uint64_t{g.mask} << 32 | (g.mask & 0x55555555)))
      count(wrong);
    // Groups part: each names its own lanes only.
    if (index_of(key) % 2 == 0) {
      draw_together(i, key, g);
    } else {
      simt::sync_warp(g.mask);
      draw_together(i, key, g);
    }
  }
  GPUHEAP_FN void draw_together(unsigned i, Key key, warp_group g) const {
    unsigned first = 0;
    if (g.leads()) first = simt::atomic_ref<unsigned>{counters[index_of(key)]}.fetch_add(g.size(), simt::relaxed);
    numbers[i] = g.from_leader(first) + g.rank() + 1;
  }
  GPUHEAP_FN static simt::uint64_t value_of(unsigned i) { return test::mix(i + 5) >> 8; }
  GPUHEAP_FN void check(unsigned i, simt::lane_mask here, Key key, warp_group g) const {
    unsigned const lane = simt::lane_id(), lane0 = i - lane;
    unsigned size = 0, rank = 0, leader = simt::warp_lanes;
    simt::uint64_t below = 0, all = 0, total = 0;
    for (unsigned other = 0; other < simt::warp_lanes; ++other) {
      bool const belongs = (here >> other & 1) != 0 && key_of<Key>(lane0 + other, num_keys) == key;
      if (belongs != ((g.mask >> other & 1) != 0)) count(wrong);
      if (!belongs) continue;
      if (leader == simt::warp_lanes) leader = other;
      rank += other < lane;
      ++size;
      if (other < lane) below += value_of(lane0 + other);
      all += value_of(lane0 + other);
    }
    if ((g.mask >> lane & 1) == 0 || g.size() != size || g.rank() != rank || g.leader() != leader) count(wrong);
    if (g.leads() != (lane == leader)) count(wrong);
    if (g.sum_before(value_of(i), total) != below || total != all) count(wrong);
    simt::uint64_t const wide = simt::uint64_t{i} << 33 | 5;
    if (g.from_leader(i) != lane0 + leader || g.from_leader(wide) != (simt::uint64_t{lane0 + leader} << 33 | 5)) count(wrong);
  }
};

namespace {

// Every key's numbers are 0, 1, 2, ... each once.
template <class Key>
std::string draw_numbers(unsigned threads, unsigned num_keys) {
  test::device_array<unsigned> counters(num_keys), numbers(threads), wrong(1);
  gpuheap::launch(threads, draw_by_key<Key>{num_keys, counters.data(), numbers.data(), wrong.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, wrong.first() == 0, "lanes disagree about their group");
  std::vector<std::vector<unsigned>> drawn(num_keys);
  auto const all = numbers.read();
  for (unsigned i = 0; i < threads; ++i) {
    require(problems, (all[i] != 0) == (way_of(i) != way::none), "thread " + std::to_string(i) + " took a wrong way");
    if (all[i] != 0) drawn[index_of(key_of<Key>(i, num_keys))].push_back(all[i] - 1);
  }
  auto const totals = counters.read();
  for (unsigned key = 0; key < num_keys; ++key) {
    std::vector<bool> seen(drawn[key].size());
    for (unsigned number : drawn[key]) {
      if (number < seen.size()) seen[number] = true;
    }
    bool const each_once = std::find(seen.begin(), seen.end(), false) == seen.end();
    require(problems, each_once && totals[key] == seen.size(), "the numbers of key " + std::to_string(key) + " are not each drawn once");
  }
  return problems;
}

TEST(NthSetBit, EqualsCounting) {
  test::rng random{1};
  for (unsigned i = 0; i < 4000; ++i) {
    simt::uint64_t x = test::mix(i);
    if (i % 3 == 0) x &= test::mix(i + 9000) & test::mix(i + 18000);
    if (i % 5 == 0) x |= ~test::mix(i + 27000);
    if (i == 1) x = ~simt::uint64_t{0};
    if (i == 2) x = simt::uint64_t{1} << 63;
    unsigned n = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((x >> bit & 1) == 0) continue;
      ASSERT_EQ(gpuheap::simt::nth_set_bit(x, n), bit) << "of " << x;
      ++n;
    }
    ASSERT_EQ(n, simt::popcount(x));
  }
}

TEST(WarpGroup, LanesOfOneKeyDrawTogether) {
  for (unsigned num_keys : {1u, 2u, 5u, 32u, 100u}) {
    EXPECT_EQ(draw_numbers<unsigned>(many_threads - 13, num_keys), "") << num_keys << " keys";
    EXPECT_EQ(draw_numbers<simt::uint64_t>(many_threads - 13, num_keys), "") << num_keys << " keys of 64 bits";
  }
}
TEST(WarpGroup, LanesOfOneKeyDrawTogetherUnderManySchedules) {
  expect_passes(1000, [] { return draw_numbers<unsigned>(explored_threads + 5, 4); });
  expect_passes(500, [] { return draw_numbers<simt::uint64_t>(explored_threads + 5, 3); });
}

}  // namespace
}  // namespace structures_test
