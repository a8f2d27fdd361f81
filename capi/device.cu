// The device functions of gpuheap_device.h. The heap's handle is the address of the heap_ref that the host wrote.
#include <gpuheap/heap_ref.hpp>

#include <gpuheap_device.h>

namespace {

using ref = gpuheap::heap_ref<>;

__device__ __forceinline__ ref const& view(gpuheap_handle heap) { return *static_cast<ref const*>(heap); }

}  // namespace

// `used`: nothing here calls them. `inline` is what nvcc makes weak symbols of: who links two libraries that each bring these has them
// once.
#define GPUHEAP_DEFINE extern "C" __device__ __attribute__((used)) inline

GPUHEAP_DEFINE void* gpuheap_v1_malloc(gpuheap_handle heap, size_t bytes) { return view(heap).malloc(bytes); }
GPUHEAP_DEFINE void* gpuheap_v1_calloc(gpuheap_handle heap, size_t count, size_t bytes) { return view(heap).calloc(count, bytes); }
GPUHEAP_DEFINE void* gpuheap_v1_aligned_malloc(gpuheap_handle heap, size_t bytes, size_t alignment) {
  return view(heap).aligned_malloc(bytes, alignment);
}
GPUHEAP_DEFINE void* gpuheap_v1_realloc(gpuheap_handle heap, void* p, size_t bytes) { return view(heap).realloc(p, bytes); }
GPUHEAP_DEFINE int gpuheap_v1_free(gpuheap_handle heap, void* p) { return static_cast<int>(view(heap).free(p)); }
GPUHEAP_DEFINE size_t gpuheap_v1_usable_size(gpuheap_handle heap, void* p) { return view(heap).usable_size(p); }
GPUHEAP_DEFINE int gpuheap_v1_owns(gpuheap_handle heap, void const* p) { return view(heap).owns(p) ? 1 : 0; }

// Every thread calls; one asks, and the others read what it was told before any of them goes on, as the word may then be written again. A
// kernel's own shared memory begins behind these bytes, at an offset that is still a multiple of 1024, on which code with swizzled tiles
// counts.
struct alignas(1024) answer_of_first {
  unsigned long long word;
};
template <class Ask>
__device__ __forceinline__ unsigned long long by_first_thread(Ask ask) {
  __shared__ answer_of_first answer;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) answer.word = ask();
  __syncthreads();
  unsigned long long const word = answer.word;
  __syncthreads();
  return word;
}
__device__ __forceinline__ unsigned long long word_of(void* p) { return reinterpret_cast<unsigned long long>(p); }

GPUHEAP_DEFINE void* gpuheap_v1_malloc_block(gpuheap_handle heap, size_t bytes) {
  return reinterpret_cast<void*>(by_first_thread([=] { return word_of(view(heap).malloc(bytes)); }));
}
GPUHEAP_DEFINE int gpuheap_v1_free_block(gpuheap_handle heap, void* p) {
  return static_cast<int>(by_first_thread([=] { return static_cast<unsigned long long>(view(heap).free(p)); }));
}

// The same with integers, as languages without pointers to anything declare them.
using word = unsigned long long;
__device__ __forceinline__ gpuheap_handle handle_of(word heap) { return reinterpret_cast<gpuheap_handle>(heap); }
__device__ __forceinline__ bool is_whole_block(unsigned threads) { return blockDim.x * blockDim.y * blockDim.z == threads; }

GPUHEAP_DEFINE word gpuheap_v1_malloc_program(word heap, word bytes, unsigned threads) {
  return is_whole_block(threads) ? word_of(gpuheap_v1_malloc_block(handle_of(heap), bytes)) : 0;
}
GPUHEAP_DEFINE int gpuheap_v1_free_program(word heap, word p, unsigned threads) {
  return is_whole_block(threads) ? gpuheap_v1_free_block(handle_of(heap), reinterpret_cast<void*>(p)) : GPUHEAP_FREED_NULL;
}

// A request is odd, and blocks are aligned: who exchanges the request for 0 serves it. The barrier of the caller publishes the answer.
GPUHEAP_DEFINE int gpuheap_v1_malloc_slot(word heap, word slot) {
  auto* const at = reinterpret_cast<word*>(slot);
  if (at == nullptr) return 0;
  word const request = *static_cast<word volatile*>(at);
  if ((request & 1) == 0 || atomicCAS(at, request, 0) != request) return 0;
  atomicExch(at, word_of(view(handle_of(heap)).malloc(request >> 1)));
  return 1;
}
GPUHEAP_DEFINE int gpuheap_v1_free_slot(word heap, word slot) {
  auto* const at = reinterpret_cast<word*>(slot);
  word const block = at == nullptr ? 0 : atomicExch(at, 0);
  if (block == 0) return 0;
  (void)view(handle_of(heap)).free(reinterpret_cast<void*>(block));
  return 1;
}
GPUHEAP_DEFINE unsigned gpuheap_v1_device_abi_version() { return 1; }

static_assert(static_cast<int>(gpuheap::free_status::done) == GPUHEAP_FREED &&
              static_cast<int>(gpuheap::free_status::null) == GPUHEAP_FREED_NULL &&
              static_cast<int>(gpuheap::free_status::foreign) == GPUHEAP_FOREIGN_FREE &&
              static_cast<int>(gpuheap::free_status::double_free) == GPUHEAP_DOUBLE_FREE);
