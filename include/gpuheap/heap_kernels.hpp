// The kernels that a heap's host functions launch.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {

// Kernel: frees pointers[i].
template <class Ref>
struct free_each {
  Ref heap;
  void* const* pointers;
  GPUHEAP_FN void operator()(unsigned i) const { heap.free(simt::plain_read(pointers[i])); }
};

// Kernel: copies bytes of memory that host code and the runtime's copies cannot access. Thread i copies bytes i, i + stride, ...
struct copy_bytes {
  char* to;
  char const* from;
  simt::size_t bytes;
  unsigned stride;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (simt::size_t at = i; at < bytes; at += stride) simt::plain_write(to[at], simt::plain_read(from[at]));
  }
};

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
