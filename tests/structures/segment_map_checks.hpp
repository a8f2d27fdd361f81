// A segment map in device memory, audited at rest.
#pragma once

#include "bitmap_tree_checks.hpp"

#include <gpuheap/structures/segment_map.hpp>

#include <algorithm>

namespace structures_test {

using gpuheap::structures::segment_map;

class map_memory {
 public:
  explicit map_memory(unsigned num_segments, unsigned stride = 1) : map_memory(std::vector<bool>(num_segments, true), stride) {}
  explicit map_memory(std::vector<bool> const& free, unsigned stride = 1)
      : num_segments_{static_cast<unsigned>(free.size())}, tree_(bitmap_tree::leaves_for(num_segments_), stride), counts_(2), moves_(1) {
    write(free);
  }

  [[nodiscard]] segment_map view() const { return {tree_.view(), num_segments_, counts_.data(), counts_.data() + 1}; }
  [[nodiscard]] transit_count moves() const { return {moves_.data()}; }

  void write(std::vector<bool> const& free) {
    std::vector<bitmap_tree::word> leaves(bitmap_tree::leaves_for(num_segments_));
    for (unsigned s = 0; s < num_segments_; ++s) leaves[s / 64] |= bitmap_tree::word{free[s]} << (s % 64);
    tree_.write(leaves);
    auto const n = static_cast<unsigned>(std::count(free.begin(), free.end(), true));
    counts_.write({n, n});
  }
  [[nodiscard]] std::vector<bool> free() const {
    auto const leaves = tree_.leaves();
    std::vector<bool> free(num_segments_);
    for (unsigned s = 0; s < num_segments_; ++s) free[s] = (leaves[s / 64] >> (s % 64) & 1) != 0;
    return free;
  }
  [[nodiscard]] unsigned num_free() const { return counts_.read()[0]; }
  [[nodiscard]] unsigned least_free() const { return counts_.read()[1]; }

  // What is wrong with a map at rest.
  [[nodiscard]] std::string problem() const {
    std::string problems = tree_.problem();
    auto const is_free = free();
    auto const n = static_cast<unsigned>(std::count(is_free.begin(), is_free.end(), true));
    require(problems, num_free() == n, std::to_string(n) + " segments are free, the count says " + std::to_string(num_free()));
    require(problems, least_free() <= n, "fewer are free than ever were at least: " + std::to_string(least_free()));
    for (unsigned s = num_segments_; s < tree_.leaves().size() * 64; ++s) {
      require(problems, (tree_.leaves()[s / 64] >> (s % 64) & 1) == 0, "segment " + std::to_string(s) + " does not exist and is free");
    }
    require(problems, transit_count::quiet(moves_.first()), "a move is still under way");
    return problems;
  }

 private:
  unsigned num_segments_;
  tree_memory<> tree_;
  test::device_array<unsigned> counts_;  // free now; least ever
  test::device_array<transit_count::word> moves_;
};

// ---- nobody is refused while a segment is free

// Kernel: on a map with 8 free segments, threads 0..6 claim a segment each, again and again, and hold one at most. The others claim all 8
// or a block of them and give them back within one transit.
struct claim_beside_grabbers {
  segment_map map;
  transit_count moves;
  owned_cells cells;  // by segment
  unsigned rounds;
  bool in_transit;  // false: the grabbers do not tell of their moves
  transit_count elsewhere;
  unsigned* refused;

  static constexpr unsigned num_free = 8;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned held = segment_map::none;
    for (unsigned round = 0; round < rounds; ++round) {
      if (i + 1 < num_free) {
        hold_another(held, i);
      } else {
        grab(random.below(2) == 0, in_transit ? moves : elsewhere, i);
      }
    }
    release(held, 1, i);
  }
  GPUHEAP_FN void hold_another(unsigned& held, unsigned i) const {
    release(held, 1, i);
    transit_count::word const seen = moves.look();
    held = map.claim_span(1, 1, 0, moves);
    if (held != segment_map::none) {
      cells.claim(held, i);
    } else if (transit_count::quiet(seen) && moves.look() == seen) {
      count(refused);
    }
  }
  GPUHEAP_FN void grab(bool all, transit_count told, unsigned i) const {
    told.begin();
    segment_map::claim const got = all ? segment_map::claim{map.claim_span(num_free, 1, 0, told), 3} : map.claim_block(2, 0);
    if (got.first != segment_map::none) {
      for (unsigned k = 0; k < 1u << got.order; ++k) cells.claim(got.first + k, i);
      release(got.first, 1u << got.order, i);
    }
    told.end();
  }
  GPUHEAP_FN void release(unsigned first, unsigned n, unsigned i) const {
    if (first == segment_map::none) return;
    for (unsigned k = 0; k < n; ++k) cells.release(first + k, i);
    map.release_span(first, n);
  }
};

// The free segments are the last ones of a leaf and the first ones of the next.
inline std::string refusals_are_right(unsigned threads, unsigned rounds, bool in_transit = true) {
  std::vector<bool> free(100);
  for (unsigned s = 0; s < claim_beside_grabbers::num_free; ++s) free[60 + s] = true;
  map_memory map(free);
  cell_memory cells(100);
  test::device_array<unsigned> refused(1);
  test::device_array<transit_count::word> elsewhere(1);
  gpuheap::launch(threads,
                  claim_beside_grabbers{map.view(), map.moves(), cells.view(), rounds, in_transit, {elsewhere.data()}, refused.data()},
                  {.block_threads = 64});
  std::string problems = map.problem() + cells.problem();
  require(problems, refused.first() == 0, "a thread was certain that no segment is free, and one was all the time");
  require(problems, map.free() == free, "segments did not come back");
  return problems;
}

}  // namespace structures_test
