// An array in memory that device code reaches, as a pointer and a count.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief An array that device code reaches and host code does not read. Does not own it.
template <class T>
struct device_span {
  T* data = nullptr;
  simt::size_t size = 0;  // elements
};
template <class T>
device_span(T*, simt::size_t) -> device_span<T>;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
