// Ways to divide the threads of a launch into groups, as functors: thread i's group. Each is made from an array of scratches, one a block.
#pragma once

#include <gpuheap/collective.hpp>

namespace test {

namespace simt = gpuheap::simt;

// The lanes of the calling warp that exist, in blocks without a partial end.
[[nodiscard]] GPUHEAP_FN inline simt::lane_mask lanes_of_warp() {
  unsigned const rest = simt::threads_per_block() - simt::thread_in_block() / simt::warp_lanes * simt::warp_lanes;
  return static_cast<simt::lane_mask>(simt::low_bits(rest < simt::warp_lanes ? rest : simt::warp_lanes));
}

struct whole_warps {
  static whole_warps make(gpuheap::block_scratch*) { return {}; }
  GPUHEAP_FN gpuheap::warp_threads operator()(unsigned) const { return gpuheap::this_warp(lanes_of_warp()); }
};
struct odd_and_even {
  static odd_and_even make(gpuheap::block_scratch*) { return {}; }
  GPUHEAP_FN gpuheap::warp_threads operator()(unsigned) const {
    return gpuheap::this_warp(lanes_of_warp() & (simt::lane_id() % 2 == 0 ? 0x55555555u : 0xaaaaaaaau));
  }
};
// Diverged lanes: who comes together here is the machine's choice.
struct whoever_is_here {
  static whoever_is_here make(gpuheap::block_scratch*) { return {}; }
  GPUHEAP_FN gpuheap::warp_threads operator()(unsigned) const {
    if (simt::lane_id() % 3 == 0) return gpuheap::this_warp();
    return gpuheap::this_warp();
  }
};
// Lanes far apart: 0, 11, 22; 1, 12, 23; ...
struct triples {
  static triples make(gpuheap::block_scratch*) { return {}; }
  GPUHEAP_FN gpuheap::warp_threads operator()(unsigned) const {
    return gpuheap::this_warp(lanes_of_warp() & (0x00400801u << simt::lane_id() % 11));
  }
};
struct blocks {
  gpuheap::block_scratch* scratch;
  static blocks make(gpuheap::block_scratch* scratch) { return {scratch}; }
  GPUHEAP_FN gpuheap::block_threads operator()(unsigned) const { return gpuheap::this_block(scratch[simt::block_id()]); }
};

// Counts its threads: here all of the block's.
struct live_blocks {
  gpuheap::block_scratch* scratch;
  static live_blocks make(gpuheap::block_scratch* scratch) { return {scratch}; }
  GPUHEAP_FN gpuheap::live_block_threads operator()(unsigned) const { return gpuheap::live_block(scratch[simt::block_id()]); }
};

// Eight neighbouring lanes, or what exists of them, with the members of a tile of cooperative_groups.
class own_tile {
 public:
  GPUHEAP_FN own_tile() : mask_{lanes_of_warp() & 0xffu << simt::lane_id() / 8 * 8} {}
  [[nodiscard]] GPUHEAP_FN unsigned long long thread_rank() const { return simt::lane_id() % 8; }
  [[nodiscard]] GPUHEAP_FN unsigned long long size() const { return simt::popcount(mask_); }
  GPUHEAP_FN void sync() const { simt::sync_warp(mask_); }
  template <class T>
  [[nodiscard]] GPUHEAP_FN T shfl(T value, unsigned rank) const {
    return simt::shuffle(mask_, value, simt::lowest_bit(mask_) + rank);
  }

 private:
  simt::lane_mask mask_;
};
static_assert(gpuheap::shuffling_group<own_tile> && !gpuheap::thread_group<own_tile>);
struct own_tiles {
  static own_tiles make(gpuheap::block_scratch*) { return {}; }
  GPUHEAP_FN own_tile operator()(unsigned) const { return {}; }
};

[[nodiscard]] GPUHEAP_FN inline unsigned rank_of(own_tile const& group) { return static_cast<unsigned>(group.thread_rank()); }
template <gpuheap::thread_group Group>
[[nodiscard]] GPUHEAP_FN unsigned rank_of(Group const& group) {
  return group.rank();
}

// The number of the group's rank 0, for thread i of it.
[[nodiscard]] GPUHEAP_FN inline unsigned first_of(gpuheap::warp_threads const& group, unsigned i) {
  return i - simt::lane_id() + simt::lowest_bit(group.mask());
}
[[nodiscard]] GPUHEAP_FN inline unsigned first_of(gpuheap::block_threads const& group, unsigned i) { return i - group.rank(); }
[[nodiscard]] GPUHEAP_FN inline unsigned first_of(gpuheap::live_block_threads const& group, unsigned i) { return i - group.rank(); }
[[nodiscard]] GPUHEAP_FN inline unsigned first_of(own_tile const& group, unsigned i) { return i - rank_of(group); }

}  // namespace test
