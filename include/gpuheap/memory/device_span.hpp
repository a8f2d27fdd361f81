// An array in memory that device code can access, as a pointer and a count.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief An array that device code can access. Host code of the library does not read it. The span does not own the array.
template <class T>
struct device_span {
  T* data = nullptr;
  simt::size_t size = 0;  // elements
};
template <class T>
device_span(T*, simt::size_t) -> device_span<T>;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
