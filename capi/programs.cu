// The functions of gpuheap_device.h for languages in which a program is a thread block, with integers in place of pointers, as such
// languages declare functions. They become bitcode alone.
#include "capi/view.hpp"

using namespace gpuheap::c_interface;

namespace {

// Out of line: each program has them once, however often it calls.
__device__ __noinline__ word take(word heap, word bytes) { return word_of(view(reinterpret_cast<gpuheap_handle>(heap)).malloc(bytes)); }
__device__ __noinline__ word give(word heap, word p) {
  return static_cast<word>(view(reinterpret_cast<gpuheap_handle>(heap)).free(reinterpret_cast<void*>(p)));
}
// What the first thread takes or gives back; `of` is a number of bytes or an address.
__device__ __noinline__ word once(word heap, word of, bool takes) {
  return from_first_thread([=] { return takes ? take(heap, of) : give(heap, of); });
}
__device__ __forceinline__ bool is_whole_block(unsigned threads) { return blockDim.x * blockDim.y * blockDim.z == threads; }

}  // namespace

GPUHEAP_DEFINE word gpuheap_v1_malloc_program(word heap, word bytes, unsigned threads) {
  return is_whole_block(threads) ? once(heap, bytes, true) : 0;
}
GPUHEAP_DEFINE int gpuheap_v1_free_program(word heap, word p, unsigned threads) {
  return is_whole_block(threads) ? static_cast<int>(once(heap, p, false)) : GPUHEAP_FREED_NULL;
}

// A request is odd, and blocks are aligned: who exchanges the request for 0 serves it. The barrier of the caller publishes the answer.
GPUHEAP_DEFINE int gpuheap_v1_malloc_slot(word heap, word slot) {
  auto* const at = reinterpret_cast<word*>(slot);
  if (at == nullptr) return 0;
  word const request = *static_cast<word volatile*>(at);
  if ((request & 1) == 0 || atomicCAS(at, request, 0) != request) return 0;
  atomicExch(at, take(heap, request >> 1));
  return 1;
}
GPUHEAP_DEFINE int gpuheap_v1_free_slot(word heap, word slot) {
  auto* const at = reinterpret_cast<word*>(slot);
  word const block = at == nullptr ? 0 : atomicExch(at, 0);
  if (block == 0) return 0;
  (void)give(heap, block);
  return 1;
}
