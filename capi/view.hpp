// Parts of the functions of gpuheap_device.h: the heap behind a handle, and one answer for a thread block.
#pragma once

#include <gpuheap_device.h>
#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap_ref.hpp>
#include <gpuheap/simt/far_call.hpp>

// Weak symbols: a link of two libraries that each bring these has them once. Nothing here calls them, so nvcc, which makes weak symbols of
// inline functions, is told to keep them. A link of bitcode takes those that it needs.
#if defined(__clang__)
#define GPUHEAP_DEFINE extern "C" __device__ __attribute__((weak))
#else
#define GPUHEAP_DEFINE extern "C" __device__ __attribute__((used)) inline
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::c_interface {

using word = unsigned long long;

// A handle is the address of the heap_ref that the host wrote, plus the kind of heap in its lowest two bits.
using plain_ref = heap_ref<>;
using checked_ref = heap_ref<checked<>>;
using hardened_ref = heap_ref<hardened<>>;
inline constexpr word plain_kind = 0, checked_kind = 1, hardened_kind = 2, kind_bits = 3;

__device__ __forceinline__ word word_of(void const* p) { return reinterpret_cast<word>(p); }

template <class Ref, class Call>
GPUHEAP_COLD auto call_other_kind(gpuheap_handle heap, Call call) {
  return call(*reinterpret_cast<Ref const*>(word_of(heap) & ~kind_bits));
}
// Calls `call` with the heap behind a handle. Heaps of the other kinds are served out of line, so that a kernel needs no more registers
// for them.
template <class Call>
__device__ __forceinline__ auto with_heap(gpuheap_handle heap, Call call) {
  word const kind = word_of(heap) & kind_bits;
  if (kind != plain_kind) {
    if (kind == hardened_kind) return simt::far_call(&call_other_kind<hardened_ref, Call>, heap, call);
    return simt::far_call(&call_other_kind<checked_ref, Call>, heap, call);
  }
  return call(*static_cast<plain_ref const*>(heap));
}

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
