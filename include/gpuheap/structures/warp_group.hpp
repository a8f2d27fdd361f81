// Warp aggregation: the lanes that want the same thing at the same time act as one.
//
// A group is a set of lanes of one warp, taken from ONE captured mask. Its leader does the atomic; ranks share out the result. Every warp
// operation of a group names the group's own mask, so lanes of the warp that are elsewhere are neither needed nor waited for.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Device, any lane. Plain values in registers.
struct warp_group {
  simt::lane_mask mask = 0;  // 0: no lane

  // The lanes of `captured` (which all call this) whose `key` equals mine.
  template <class Key>
  [[nodiscard]] GPUHEAP_FN static warp_group of_equal(simt::lane_mask captured, Key key) {
    return {simt::match_any(captured, key)};
  }

  [[nodiscard]] GPUHEAP_FN unsigned size() const { return simt::popcount(mask); }
  [[nodiscard]] GPUHEAP_FN unsigned leader() const { return simt::lowest_bit(mask); }
  [[nodiscard]] GPUHEAP_FN bool leads() const { return simt::lane_id() == leader(); }
  // Position of this lane among the group's lanes, 0..size()-1.
  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return simt::popcount(lanes_below()); }
  // The lane of this rank, below size().
  [[nodiscard]] GPUHEAP_FN unsigned lane(unsigned rank) const { return mask == simt::all_lanes ? rank : simt::nth_set_bit(mask, rank); }
  // The sum of the `value` of lower ranks; `total`: of all.
  template <class T>
  [[nodiscard]] GPUHEAP_FN T sum_before(T value, T& total) const {
    // Each lane knows the sum over some ranks up to its own, and the lane before these ranks. Each pass doubles the number of ranks.
    T sum = value;
    simt::lane_mask const below = lanes_below();
    unsigned const self = simt::lane_id();
    unsigned before = below == 0 ? simt::warp_lanes : simt::highest_bit(below);  // warp_lanes: none
    // All lanes of the warp make the same number, so that groups of different sizes stay together.
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
  // The leader's `value`, to every lane of the group. Moves no memory order: a thread that relies on what the leader acquired passes a
  // sync_warp first.
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_leader(T value) const {
    return simt::shuffle(mask, value, leader());
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::lane_mask lanes_below() const { return mask & ((simt::lane_mask{1} << simt::lane_id()) - 1); }
};

// The bits that any lane of `mask` has, to all of them.
[[nodiscard]] GPUHEAP_FN inline simt::uint64_t reduce_or(simt::lane_mask mask, simt::uint64_t value) {
  return simt::uint64_t{simt::reduce_or(mask, static_cast<unsigned>(value >> 32))} << 32 |
         simt::reduce_or(mask, static_cast<unsigned>(value));
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
