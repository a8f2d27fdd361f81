// The CUDA backend of warp.hpp: one-line forwards to the hardware.
//
// Under a compiler that only passes through (g++ on the .cpp files of a CUDA program) there is no hardware to reach: pass_through.hpp
// declares what nvcc knows by itself, so that headers parse and a call from host code is a link error.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/cuda/pass_through.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// ---- the calling thread (any thread)

// Lane within the warp, 0..31.
[[nodiscard]] GPUHEAP_FN inline unsigned lane_id() {
  unsigned id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}

// Thread within the block (one-dimensional index), and the block's size.
[[nodiscard]] GPUHEAP_FN inline unsigned thread_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
[[nodiscard]] GPUHEAP_FN inline unsigned threads_per_block() { return blockDim.x * blockDim.y * blockDim.z; }

// Block within the grid, and the grid's size.
[[nodiscard]] GPUHEAP_FN inline unsigned block_id() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
[[nodiscard]] GPUHEAP_FN inline unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }

// Warp within the grid, counted over blocks.
[[nodiscard]] GPUHEAP_FN inline unsigned global_warp() {
  return block_id() * ((threads_per_block() + warp_lanes - 1) / warp_lanes) + thread_in_block() / warp_lanes;
}
// Multiprocessor the thread runs on now. The id may be any value: reduce it modulo an array's length.
[[nodiscard]] GPUHEAP_FN inline unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

// Place of the warp among those that its multiprocessor runs now; a hint for policies, as it may change meanwhile.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_on_sm() {
  unsigned id;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(id));
  return id;
}

// A number that mostly differs from that of the launch before; a hint for policies.
[[nodiscard]] GPUHEAP_FN inline unsigned launch_id() {
  uint64_t id;
  asm("mov.u64 %0, %%gridid;" : "=l"(id));
  return static_cast<unsigned>(id);
}

// A counter of the multiprocessor's cycles. Wraps.
[[nodiscard]] GPUHEAP_FN inline uint64_t clock_cycles() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
  return t;
}

// A clock common to the device, in nanoseconds, of coarse resolution.
[[nodiscard]] GPUHEAP_FN inline uint64_t clock_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// ---- the lanes that are here together (any set of lanes)

// The lanes that execute this call together now. Capture the mask once and pass it on: two calls may differ.
//
// The caller's own bit is added from a register that differs in every lane, because of the compiler: ptxas 13.0 assumes that an active mask
// is the same in all lanes that execute together later, keeps it in a register of the whole warp, and lets warp operations on it act for
// the lanes that are converged at that time. Lanes that captured different masks and have converged since would then act under one of them
// (seen on sm_90: votes of other groups, illegal instructions). docs/decisions/active-masks.md has the experiment.
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

// The lanes of `mask` whose value equals mine. T: a 4- or 8-byte integer or pointer.
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
// sm_75 has no redux instruction: a butterfly over the lanes of the mask, valid for any mask since absent lanes are skipped by rank.
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

// Reductions over the lanes of `mask`; every lane gets the result.
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

// Every thread of the block must arrive. Memory accesses before it happen before those after it, among the block's threads.
GPUHEAP_FN inline void sync_block() { __syncthreads(); }
// The same for the threads of the block that have not returned: no thread waits for the others. From sm_70 on every barrier works so (CUDA
// C++ Programming Guide, "Synchronization Functions"). In this form each thread arrives by itself, so lanes of a warp may arrive in parts.
GPUHEAP_FN inline void sync_living_block() { asm volatile("barrier.sync 0;" ::: "memory"); }

// Ends the kernel with an error that the host sees as a failed launch.
[[noreturn]] GPUHEAP_FN inline void trap() {
  __trap();
  __builtin_unreachable();
}

// Ends this thread, as if it had returned from the kernel. Destructors of its local objects may run or not.
[[noreturn]] GPUHEAP_FN inline void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
