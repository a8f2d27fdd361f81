// Warp aggregation: the lanes of a warp that make the same request at the same time make it together.
//
// A group is a set of lanes of one warp, taken from ONE captured mask. The leader of the group executes the atomic operation, and each lane
// computes its part of the result from its rank. Every warp operation of a group names the group's own mask, so it neither needs nor waits
// for other lanes of the warp.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Device, any lane. The struct is a mask in a register.
struct warp_group {
  simt::lane_mask mask = 0;  // 0: no lane

  // The lanes of `captured` whose `key` equals the caller's. All lanes of `captured` call.
  template <class Key>
  [[nodiscard]] GPUHEAP_FN static warp_group of_equal(simt::lane_mask captured, Key key) {
    return {simt::match_any(captured, key)};
  }

  [[nodiscard]] GPUHEAP_FN unsigned size() const { return simt::popcount(mask); }
  [[nodiscard]] GPUHEAP_FN unsigned leader() const { return simt::lowest_bit(mask); }
  [[nodiscard]] GPUHEAP_FN bool leads() const { return simt::lane_id() == leader(); }
  // Position of this lane among the group's lanes, 0..size()-1.
  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return simt::popcount(lanes_below()); }
  // The lane with a given rank, which is below size().
  [[nodiscard]] GPUHEAP_FN unsigned lane(unsigned rank) const { return mask == simt::all_lanes ? rank : simt::nth_set_bit(mask, rank); }
  // The sum of `value` over the lanes of lower ranks. `total` receives the sum over all lanes. All lanes of the group call.
  template <class T>
  [[nodiscard]] GPUHEAP_FN T sum_before(T value, T& total) const {
    // `sum`: the sum over the lane's own rank and some ranks directly below. `before`: the lane of the next rank below these. Each pass
    // doubles the number of ranks.
    T sum = value;
    simt::lane_mask const below = lanes_below();
    unsigned const self = simt::lane_id();
    unsigned before = below == 0 ? simt::warp_lanes : simt::highest_bit(below);  // warp_lanes: none
    // All groups of a warp make five passes, so that groups of different sizes stay converged.
    for (unsigned known = 1; known < simt::warp_lanes; known *= 2) {
      unsigned const from = before == simt::warp_lanes ? self : before;
      T const theirs = simt::shuffle(mask, sum, from);
      unsigned const before_them = simt::shuffle(mask, before, from);
      if (before != simt::warp_lanes) {
        sum += theirs;
        before = before_them;
      }
    }
    total = simt::shuffle(mask, sum, simt::highest_bit(mask));
    return sum - value;
  }
  // Returns the leader's `value` to every lane of the group; all of them call. The call orders no memory accesses: a lane that relies on
  // what the leader acquired calls sync_warp first.
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_leader(T value) const {
    return simt::shuffle(mask, value, leader());
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::lane_mask lanes_below() const { return mask & ((simt::lane_mask{1} << simt::lane_id()) - 1); }
};

// The bitwise OR of `value` over the lanes of `mask`, which all call and get the result.
[[nodiscard]] GPUHEAP_FN inline simt::uint64_t reduce_or(simt::lane_mask mask, simt::uint64_t value) {
  return simt::uint64_t{simt::reduce_or(mask, static_cast<unsigned>(value >> 32))} << 32 |
         simt::reduce_or(mask, static_cast<unsigned>(value));
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
