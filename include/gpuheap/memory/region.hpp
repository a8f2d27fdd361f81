// A contiguous piece of memory that a heap lives in.
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
// Makes [offset, offset + bytes) of a region usable; more than that may become so, and what is usable already stays as it is. Nothing is
// initialised. Throws out_of_memory: then nothing has changed.
using map_function = function<void(simt::size_t offset, simt::size_t bytes)>;
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
