// The host backend of warp.hpp: forwards to the simulator, which checks each use (gpuheap_simulator/warp.hpp lists misuse). The last
// parameter of each operation is the caller's place in the source, for reports; callers leave it out.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>

#include <gpuheap_simulator/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
using ::gpuheap::simulator::operation;
using ::gpuheap::simulator::site;

template <class T>
[[nodiscard]] inline uint64_t word_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 8) {
    return bit_cast<uint64_t>(value);
  } else {
    return bit_cast<uint32_t>(value);
  }
}
template <class T>
[[nodiscard]] inline T value_of(uint64_t word) {
  if constexpr (sizeof(T) == 8) {
    return bit_cast<T>(word);
  } else {
    return bit_cast<T>(static_cast<uint32_t>(word));
  }
}
[[nodiscard]] inline uint32_t reduce(operation what, lane_mask mask, uint32_t value, site where) {
  return static_cast<uint32_t>(::gpuheap::simulator::exchange_in_warp(what, mask, value, 0, where));
}
}  // namespace detail

// ---- the calling thread (any thread)

// The caller's lane within its warp, 0..31.
[[nodiscard]] inline unsigned lane_id() { return ::gpuheap::simulator::lane_id(); }
// The caller's index within its block, and the block's size in threads.
[[nodiscard]] inline unsigned thread_in_block() { return ::gpuheap::simulator::thread_in_block(); }
[[nodiscard]] inline unsigned threads_per_block() { return ::gpuheap::simulator::threads_per_block(); }
// The caller's block within the grid, and the grid's size in blocks.
[[nodiscard]] inline unsigned block_id() { return ::gpuheap::simulator::block_id(); }
[[nodiscard]] inline unsigned num_blocks() { return ::gpuheap::simulator::num_blocks(); }
// The caller's warp within the grid: the warps of block 0 come first, then those of block 1, and so on.
[[nodiscard]] inline unsigned global_warp() {
  return block_id() * ((threads_per_block() + warp_lanes - 1) / warp_lanes) + thread_in_block() / warp_lanes;
}
// The multiprocessor on which the thread runs now. On a GPU ids may have gaps and exceed the number of multiprocessors: reduce an id modulo
// an array's length.
[[nodiscard]] inline unsigned sm_id() { return ::gpuheap::simulator::sm_id(); }
// The warp's place among the warps that its multiprocessor runs now. On a GPU the place may change while the warp runs, so it is only a
// hint. On this backend it is global_warp() modulo 64.
[[nodiscard]] inline unsigned warp_on_sm() { return global_warp() % 64; }
// A number that usually differs between two launches in succession. It is only a hint.
[[nodiscard]] inline unsigned launch_id() { return ::gpuheap::simulator::launch_id(); }
// Simulated clocks, in cycles and in nanoseconds. They advance with each scheduling point, and are the same in each replay.
[[nodiscard]] inline uint64_t clock_cycles(detail::site where = detail::site::here()) { return ::gpuheap::simulator::clock_cycles(where); }
[[nodiscard]] inline uint64_t clock_ns(detail::site where = detail::site::here()) { return ::gpuheap::simulator::clock_ns(where); }

// ---- the lanes that execute together (any set of lanes)

// The lanes that execute this call together now. Capture the mask once and pass it on: two calls may differ.
[[nodiscard]] inline lane_mask active_mask(detail::site where = detail::site::here()) { return ::gpuheap::simulator::active_mask(where); }

// ---- exchanges between lanes: every lane named in `mask` must make the same call with the same mask.

inline void sync_warp(lane_mask mask, detail::site where = detail::site::here()) { ::gpuheap::simulator::sync_warp(mask, where); }
[[nodiscard]] inline lane_mask ballot(lane_mask mask, bool vote, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::ballot, mask, vote, where);
}
[[nodiscard]] inline bool all_of(lane_mask mask, bool vote, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::all_of, mask, vote, where) != 0;
}
[[nodiscard]] inline bool any_of(lane_mask mask, bool vote, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::any_of, mask, vote, where) != 0;
}

// `value` of lane `source`, which must be in `mask`. T: any 4- or 8-byte trivially copyable type.
template <class T>
[[nodiscard]] inline T shuffle(lane_mask mask, T value, unsigned source, detail::site where = detail::site::here()) {
  return detail::value_of<T>(
      ::gpuheap::simulator::exchange_in_warp(detail::operation::shuffle, mask, detail::word_of(value), source, where));
}
// `value` of the lane `distance` below (up) or above (down); the caller's own value if there is no such lane.
template <class T>
[[nodiscard]] inline T shuffle_up(lane_mask mask, T value, unsigned distance, detail::site where = detail::site::here()) {
  return detail::value_of<T>(
      ::gpuheap::simulator::exchange_in_warp(detail::operation::shuffle_up, mask, detail::word_of(value), distance, where));
}
template <class T>
[[nodiscard]] inline T shuffle_down(lane_mask mask, T value, unsigned distance, detail::site where = detail::site::here()) {
  return detail::value_of<T>(
      ::gpuheap::simulator::exchange_in_warp(detail::operation::shuffle_down, mask, detail::word_of(value), distance, where));
}
template <class T>
[[nodiscard]] inline T shuffle_xor(lane_mask mask, T value, unsigned lanes, detail::site where = detail::site::here()) {
  return detail::value_of<T>(
      ::gpuheap::simulator::exchange_in_warp(detail::operation::shuffle_xor, mask, detail::word_of(value), lanes, where));
}

// The lanes of `mask` whose value equals the caller's. T: a 4- or 8-byte integer or pointer.
template <class T>
[[nodiscard]] inline lane_mask match_any(lane_mask mask, T value, detail::site where = detail::site::here()) {
  return static_cast<lane_mask>(
      ::gpuheap::simulator::exchange_in_warp(detail::operation::match_any, mask, detail::word_of(value), 0, where));
}

// Reductions over the lanes of `mask`. Every lane of `mask` gets the result.
[[nodiscard]] inline uint32_t reduce_or(lane_mask mask, uint32_t value, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::reduce_or, mask, value, where);
}
[[nodiscard]] inline uint32_t reduce_and(lane_mask mask, uint32_t value, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::reduce_and, mask, value, where);
}
[[nodiscard]] inline uint32_t reduce_add(lane_mask mask, uint32_t value, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::reduce_add, mask, value, where);
}
[[nodiscard]] inline uint32_t reduce_min(lane_mask mask, uint32_t value, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::reduce_min, mask, value, where);
}
[[nodiscard]] inline uint32_t reduce_max(lane_mask mask, uint32_t value, detail::site where = detail::site::here()) {
  return detail::reduce(detail::operation::reduce_max, mask, value, where);
}

// ---- block

// Waits for every thread of the block. The accesses of every thread before the barrier happen before those of every thread after the
// barrier.
inline void sync_block(detail::site where = detail::site::here()) { ::gpuheap::simulator::sync_block(where); }
// The same for a block some of whose threads have returned: no thread waits for these.
inline void sync_living_block(detail::site where = detail::site::here()) { ::gpuheap::simulator::sync_block(where, true); }

// Ends the kernel with an error that the host sees as a failed launch.
[[noreturn]] inline void trap(detail::site where = detail::site::here()) { ::gpuheap::simulator::trap(where); }

namespace detail {
struct thread_ended {};  // caught by launch()
}  // namespace detail
// Ends this thread, as if it had returned from the kernel. On this backend the destructors of its local objects run; on a GPU they do not.
[[noreturn]] inline void end_thread() { throw detail::thread_ended{}; }

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
