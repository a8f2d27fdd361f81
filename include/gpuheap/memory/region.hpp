// A contiguous piece of memory that a heap lives in.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// `base` is aligned to at least 256 bytes. Device code can read and write all of it.
struct region {
  void* base = nullptr;
  simt::size_t bytes = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
