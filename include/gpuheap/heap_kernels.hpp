// The kernels that a heap's host functions launch, and the line by which a program compiles them.
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

// A CUDA program whose .cpp files use heap<Allocator> gets the heap's kernels by linking gpuheap::kernels (the default allocator) or
// gpuheap::kernels_<name of the allocator's header>. For an allocator that is not one of the library's, a program writes
// GPUHEAP_INSTANTIATE(Allocator) at global scope in one .cu file. The line compiles the kernels of the heap's host functions, and those of
// leaks.hpp if the file includes that header.
#if !defined(GPUHEAP_INSTANTIATE_INSPECTION)
#define GPUHEAP_INSTANTIATE_INSPECTION(...)
#endif
#define GPUHEAP_INSTANTIATE(...)                                   \
  GPUHEAP_INSTANTIATE_INSPECTION(__VA_ARGS__)                      \
  template class ::gpuheap::heap<__VA_ARGS__, ::gpuheap::counted>; \
  template class ::gpuheap::heap<__VA_ARGS__, ::gpuheap::uncounted>
