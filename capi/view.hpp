// What the functions of gpuheap_device.h are made of: the heap behind a handle, and one answer for a thread block.
#pragma once

#include <gpuheap_device.h>
#include <gpuheap/heap_ref.hpp>

// `used`: nothing here calls them. `inline` is what nvcc makes weak symbols of: who links two libraries that each bring these has them
// once.
#define GPUHEAP_DEFINE extern "C" __device__ __attribute__((used)) inline

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::c_interface {

using ref = heap_ref<>;
using word = unsigned long long;

__device__ __forceinline__ ref const& view(gpuheap_handle heap) { return *static_cast<ref const*>(heap); }
__device__ __forceinline__ word word_of(void* p) { return reinterpret_cast<word>(p); }

// A kernel's own shared memory begins behind these bytes, at an offset that is still a multiple of 1024, on which code with swizzled tiles
// counts.
struct alignas(1024) shared_word {
  word value;
};

// Every thread of the block calls. One asks, and the others read what it was told before any of them goes on, as the word may then be
// written again.
template <class Ask>
__device__ __forceinline__ word from_first_thread(Ask ask) {
  __shared__ shared_word answer;
  asm volatile("" ::"l"(&answer));  // or a compiler keeps the word alone
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) answer.value = ask();
  __syncthreads();
  word const value = answer.value;
  __syncthreads();
  return value;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::c_interface
