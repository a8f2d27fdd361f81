// A contiguous piece of memory for a heap.
#pragma once

#include <gpuheap/memory/function.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// @brief A contiguous piece of memory that device code reads and writes. `base` is aligned to at least 256 bytes.
struct region {
  void* base = nullptr;
  simt::size_t bytes = 0;
};

#if GPUHEAP_HAS_HOST
// A function that maps memory to [offset, offset + bytes) of a region, and perhaps to bytes around it. Parts that have memory already do
// not change. The new memory is not initialised. If the function throws out_of_memory, it has changed nothing.
using map_function = function<void(simt::size_t offset, simt::size_t bytes)>;
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
