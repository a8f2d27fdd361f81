// The block as a group, for parsing without a toolkit.
#pragma once

namespace cooperative_groups {

struct thread_block {
  __device__ unsigned thread_rank() const { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ void sync() const { __syncthreads(); }
};
__device__ inline thread_block this_thread_block() { return {}; }

}  // namespace cooperative_groups
