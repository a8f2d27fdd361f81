// Checks of claimed chunks, for the real map and for maps with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/chunk_map.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::chunk_map;

// The words of a map.
class chunk_map_memory {
 public:
  explicit chunk_map_memory(unsigned num_chunks)
      : taken_(chunk_map::taken_words(num_chunks)), starts_(chunk_map::start_words(num_chunks)) {}

  template <class Map>
  [[nodiscard]] Map view() const {
    Map map;
    map.taken = taken_.data();
    map.starts = starts_.data();
    return map;
  }
  [[nodiscard]] std::vector<chunk_map::word> taken() const { return taken_.read(); }
  // Whether no chunk is taken and no block begins anywhere.
  [[nodiscard]] std::string left_over() const {
    std::string problems;
    for (auto const word : taken_.read()) require(problems, word == 0, "a chunk is still taken");
    for (auto const word : starts_.read()) require(problems, (word & 0x77777777u) == 0, "a block still begins somewhere");
    return problems;
  }

 private:
  test::device_array<chunk_map::word> taken_;
  test::device_array<simt::uint32_t> starts_;
};

// Kernel: threads claim blocks of all lengths, where they like or where there is room, and end those of others.
template <class Map>
struct trade_blocks {
  Map map;
  owned_cells cells;
  unsigned num_chunks;
  unsigned rounds;
  unsigned* board;  // by place: a block's first chunk * 16 + its length that nobody has, or 0
  unsigned num_places;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const count = 1u << random.below(4);
      unsigned first = random.below(num_chunks / count) * count;
      if (random.below(3) == 0) {
        first = map.claim_any(first, count, num_chunks);
      } else if (!map.claim(first, count)) {
        first = chunk_map::none;
      }
      unsigned mine = 0;
      if (first != chunk_map::none) {
        for (unsigned c = first; c < first + count; ++c) cells.claim(c, i);
        if (map.count_at(first) != 0) structures_test::count(cells.wrong);
        map.mark(first, count);
        for (unsigned c = first; c < first + count; ++c) cells.release(c, i);
        mine = first * 16 + count;
      }
      end(simt::atomic_ref<unsigned>{board[random.below(num_places)]}.exchange(mine, simt::acq_rel), i);
    }
  }
  GPUHEAP_FN void end(unsigned block, unsigned i) const {
    if (block == 0) return;
    unsigned const first = block / 16, count = block % 16;
    if (map.count_at(first) != count) structures_test::count(cells.wrong);
    for (unsigned c = first; c < first + count; ++c) cells.claim(c, i);
    for (unsigned c = first; c < first + count; ++c) cells.release(c, i);
    auto const start = map.unmark(first);
    if (start.count != count || !start.has_begun) structures_test::count(cells.wrong);
    simt::fence(simt::release);
    map.release(first, count);
  }
};
template <class Map>
struct end_all {
  trade_blocks<Map> of;
  GPUHEAP_FN void operator()(unsigned i) const { of.end(of.board[i], i); }
};
template <class Map>
std::string blocks_are_apart(unsigned threads, unsigned num_chunks, unsigned rounds) {
  constexpr unsigned num_places = 7;
  chunk_map_memory memory(num_chunks);
  cell_memory cells(num_chunks);
  test::device_array<unsigned> board(num_places);
  trade_blocks<Map> const kernel{memory.view<Map>(), cells.view(), num_chunks, rounds, board.data(), num_places};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  gpuheap::launch(num_places, end_all<Map>{kernel});
  return cells.problem() + memory.left_over();
}

// Kernel: each thread looks for one block.
template <class Map>
struct claim_one {
  Map map;
  unsigned num_chunks, count;
  unsigned* got;  // by thread: the first chunk + 1, or 0
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const first = map.claim_any(i * 37 % num_chunks, count, num_chunks);
    got[i] = first == chunk_map::none ? 0 : first + 1;
  }
};
// As many threads as blocks fit: all are served, and one more launch finds nothing.
template <class Map>
std::string all_places_are_found(unsigned num_chunks, unsigned count) {
  chunk_map_memory memory(num_chunks);
  unsigned const fit = num_chunks / count;
  test::device_array<unsigned> got(fit + 1);
  Map const map = memory.view<Map>();
  gpuheap::launch(fit, claim_one<Map>{map, num_chunks, count, got.data()}, {.block_threads = 64});
  auto const first = got.read();
  std::string problems;
  std::vector<bool> taken(num_chunks);
  for (unsigned i = 0; i < fit; ++i) {
    require(problems, first[i] != 0, "a place is not found");
    if (first[i] == 0) continue;
    require(problems, (first[i] - 1) % count == 0 && first[i] - 1 + count <= num_chunks, "a block lies where none can");
    for (unsigned c = first[i] - 1; c < first[i] - 1 + count && c < num_chunks; ++c) {
      require(problems, !taken[c], "a chunk is claimed twice");
      taken[c] = true;
    }
  }
  gpuheap::launch(1, claim_one<Map>{map, num_chunks, count, got.data() + fit});
  require(problems, got.read().back() == 0, "a block is found in a full map");
  return problems;
}

// Kernel: threads 2k and 2k + 1 end block k.
template <class Map>
struct unmark_twice {
  Map map;
  unsigned* first;  // how often a length was told
  unsigned* second;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const start = map.unmark(i / 2 * 4);
    count(start.count == 4 ? first : second);
    if (start.count == 0 && !start.has_begun) count(second);
  }
};
template <class Map>
struct mark_each {
  Map map;
  GPUHEAP_FN void operator()(unsigned i) const {
    (void)map.claim(i * 4, 4);
    map.mark(i * 4, 4);
  }
};
template <class Map>
std::string a_block_ends_once(unsigned num_blocks) {
  chunk_map_memory memory(num_blocks * 4);
  test::device_array<unsigned> first(1), second(1);
  Map const map = memory.view<Map>();
  gpuheap::launch(num_blocks, mark_each<Map>{map});
  gpuheap::launch(2 * num_blocks, unmark_twice<Map>{map, first.data(), second.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, first.first() == num_blocks && second.first() == num_blocks, "not exactly one of two ended a block");
  return problems;
}

}  // namespace structures_test
