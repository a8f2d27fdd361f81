// The CUDA backend of warp.hpp: intrinsics and special registers.
//
// A compiler without CUDA (g++ on the .cpp files of a CUDA program) does not know the intrinsics. For it, pass_through.hpp declares them,
// so that the headers parse; a call from host code is then a link error.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/cuda/pass_through.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// ---- the calling thread (any thread)

// The caller's lane within its warp, 0..31.
[[nodiscard]] GPUHEAP_FN inline unsigned lane_id() {
  unsigned id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}

// The caller's index within its block, and the block's size in threads. Both count blocks of several dimensions linearly.
[[nodiscard]] GPUHEAP_FN inline unsigned thread_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
[[nodiscard]] GPUHEAP_FN inline unsigned threads_per_block() { return blockDim.x * blockDim.y * blockDim.z; }

// The caller's block within the grid, and the grid's size in blocks.
[[nodiscard]] GPUHEAP_FN inline unsigned block_id() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
[[nodiscard]] GPUHEAP_FN inline unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }

// The caller's warp within the grid: the warps of block 0 come first, then those of block 1, and so on.
[[nodiscard]] GPUHEAP_FN inline unsigned global_warp() {
  return block_id() * ((threads_per_block() + warp_lanes - 1) / warp_lanes) + thread_in_block() / warp_lanes;
}
// The multiprocessor on which the thread runs now. Ids may have gaps and exceed the number of multiprocessors: reduce an id modulo an
// array's length.
[[nodiscard]] GPUHEAP_FN inline unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

// The warp's place among the warps that its multiprocessor runs now. The place may change while the warp runs, so it is only a hint.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_on_sm() {
  unsigned id;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(id));
  return id;
}

// A number that usually differs between two launches in succession. It is only a hint.
[[nodiscard]] GPUHEAP_FN inline unsigned launch_id() {
  uint64_t id;
  asm("mov.u64 %0, %%gridid;" : "=l"(id));
  return static_cast<unsigned>(id);
}

// The multiprocessor's counter of clock cycles. It wraps.
[[nodiscard]] GPUHEAP_FN inline uint64_t clock_cycles() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
  return t;
}

// A clock of the whole device, in nanoseconds. Its resolution is coarse.
[[nodiscard]] GPUHEAP_FN inline uint64_t clock_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// ---- the lanes that execute together (any set of lanes)

// The lanes that execute this call together now. Capture the mask once and pass it on: two calls may differ.
//
// The function adds the caller's own bit from a register that differs in every lane, to keep ptxas 13.0 from a wrong assumption. That
// compiler assumes that an active mask is the same in all lanes that execute together later. It keeps the mask in a register of the whole
// warp, and lets warp operations on the mask act for the lanes that are converged at that time. Lanes that captured different masks and
// have converged since would then act under one of these masks (seen on sm_90: votes of other groups, illegal instructions).
// docs/decisions/active-masks.md has the experiment.
[[nodiscard]] GPUHEAP_FN inline lane_mask active_mask() {
  lane_mask own;
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
  return __activemask() | own;
}

// ---- exchanges between lanes: every lane named in `mask` must make the same call with the same mask.

GPUHEAP_FN inline void sync_warp(lane_mask mask) { __syncwarp(mask); }
[[nodiscard]] GPUHEAP_FN inline lane_mask ballot(lane_mask mask, bool vote) { return __ballot_sync(mask, vote); }
[[nodiscard]] GPUHEAP_FN inline bool all_of(lane_mask mask, bool vote) { return __all_sync(mask, vote); }
[[nodiscard]] GPUHEAP_FN inline bool any_of(lane_mask mask, bool vote) { return __any_sync(mask, vote); }

// `value` of lane `source`, which must be in `mask`. T: any 4- or 8-byte trivially copyable type.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T shuffle(lane_mask mask, T value, unsigned source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 8) {
    return bit_cast<T>(__shfl_sync(mask, bit_cast<unsigned long long>(value), static_cast<int>(source)));
  } else {
    return bit_cast<T>(__shfl_sync(mask, bit_cast<unsigned>(value), static_cast<int>(source)));
  }
}

// `value` of the lane `distance` below (up) or above (down); the caller's own value if there is no such lane.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T shuffle_up(lane_mask mask, T value, unsigned distance) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return __shfl_up_sync(mask, value, distance);
}
template <class T>
[[nodiscard]] GPUHEAP_FN inline T shuffle_down(lane_mask mask, T value, unsigned distance) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return __shfl_down_sync(mask, value, distance);
}
template <class T>
[[nodiscard]] GPUHEAP_FN inline T shuffle_xor(lane_mask mask, T value, unsigned lanes) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return __shfl_xor_sync(mask, value, static_cast<int>(lanes));
}

// The lanes of `mask` whose value equals the caller's. T: a 4- or 8-byte integer or pointer.
template <class T>
[[nodiscard]] GPUHEAP_FN inline lane_mask match_any(lane_mask mask, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 8) {
    return __match_any_sync(mask, bit_cast<unsigned long long>(value));
  } else {
    return __match_any_sync(mask, bit_cast<unsigned>(value));
  }
}

namespace detail {
// A reduction by one shuffle for each lane of the mask, for sm_75, which has no redux instruction. Any mask is valid: the loop skips lanes
// that are not in it.
template <class Op>
GPUHEAP_FN inline uint32_t reduce_by_shuffle(lane_mask mask, uint32_t value, Op op) {
  uint32_t result = value;
  bool first = true;
  for (lane_mask rest = mask; rest != 0; rest &= rest - 1) {
    uint32_t const theirs = shuffle(mask, value, lowest_bit(rest));
    result = first ? theirs : op(result, theirs);
    first = false;
  }
  return result;
}
}  // namespace detail

// Reductions over the lanes of `mask`. Every lane of `mask` gets the result.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_or(lane_mask mask, uint32_t value) { return __reduce_or_sync(mask, value); }
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_and(lane_mask mask, uint32_t value) { return __reduce_and_sync(mask, value); }
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_add(lane_mask mask, uint32_t value) { return __reduce_add_sync(mask, value); }
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_min(lane_mask mask, uint32_t value) { return __reduce_min_sync(mask, value); }
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_max(lane_mask mask, uint32_t value) { return __reduce_max_sync(mask, value); }
#else
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_or(lane_mask mask, uint32_t value) {
  return detail::reduce_by_shuffle(mask, value, [](uint32_t a, uint32_t b) { return a | b; });
}
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_and(lane_mask mask, uint32_t value) {
  return detail::reduce_by_shuffle(mask, value, [](uint32_t a, uint32_t b) { return a & b; });
}
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_add(lane_mask mask, uint32_t value) {
  return detail::reduce_by_shuffle(mask, value, [](uint32_t a, uint32_t b) { return a + b; });
}
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_min(lane_mask mask, uint32_t value) {
  return detail::reduce_by_shuffle(mask, value, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
}
[[nodiscard]] GPUHEAP_FN inline uint32_t reduce_max(lane_mask mask, uint32_t value) {
  return detail::reduce_by_shuffle(mask, value, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
}
#endif

// ---- block

// Waits for every thread of the block. The accesses of every thread before the barrier happen before those of every thread after the
// barrier.
GPUHEAP_FN inline void sync_block() { __syncthreads(); }
// The same for a block some of whose threads have returned: no thread waits for these. From sm_70 on, every barrier leaves returned threads
// out (CUDA C++ Programming Guide, "Synchronization Functions"). In this form each thread arrives on its own, so the lanes of a warp may
// arrive at different times.
GPUHEAP_FN inline void sync_living_block() { asm volatile("barrier.sync 0;" ::: "memory"); }

// Ends the kernel with an error that the host sees as a failed launch.
[[noreturn]] GPUHEAP_FN inline void trap() {
  __trap();
  __builtin_unreachable();
}

// Ends this thread, as if it had returned from the kernel. The destructors of its local objects do not run; in the simulator they do.
[[noreturn]] GPUHEAP_FN inline void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
