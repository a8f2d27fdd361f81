// An array in device memory for tests: made from host values, read back to them.
#pragma once

#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/memory/device_span.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <cstddef>
#include <vector>

namespace test {

template <class T>
class device_array {
 public:
  // All bytes zero.
  explicit device_array(std::size_t size) : memory_{gpuheap::memory::device, bytes_of(size)}, size_{size} {
    gpuheap::simt::fill(memory_.base(), 0, bytes_of(size));
    gpuheap::simt::synchronize({});
  }
  explicit device_array(std::vector<T> const& values) : device_array(values.size()) { write(values); }

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.base()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] gpuheap::device_span<T> span() const { return {data(), size_}; }

  void write(std::vector<T> const& values) {
    if (values.empty()) return;
    gpuheap::simt::copy(data(), values.data(), values.size() * sizeof(T));
    gpuheap::simt::synchronize({});
  }
  // After all kernels of the device.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_);
    gpuheap::simt::synchronize_device();
    if (size_ != 0) gpuheap::simt::copy(values.data(), data(), size_ * sizeof(T));
    gpuheap::simt::synchronize({});
    return values;
  }
  [[nodiscard]] T first() const { return read().front(); }

 private:
  static std::size_t bytes_of(std::size_t size) { return size == 0 ? 1 : size * sizeof(T); }
  gpuheap::memory::allocation memory_;
  std::size_t size_;
};

}  // namespace test
