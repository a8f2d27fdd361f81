// Shorthand of the tests of simt/, which stand on nothing above it. Every file here is compiled for each backend.
#pragma once

#include <gpuheap/simt/simt.hpp>

#include <gtest/gtest.h>

#include <cstddef>

namespace simt_test {

namespace simt = gpuheap::simt;

// `size` objects of T, zero at first, reachable by kernels and by the host.
template <class T>
class cells {
 public:
  explicit cells(std::size_t size) : data_{static_cast<T*>(simt::allocate(simt::memory_kind::managed, size * sizeof(T)))}, size_{size} {
    simt::fill(data_, 0, size * sizeof(T));
    simt::synchronize({});
  }
  ~cells() { simt::deallocate(simt::memory_kind::managed, data_); }
  cells(cells const&) = delete;
  cells& operator=(cells const&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // After run().
  [[nodiscard]] T& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + size_; }

 private:
  T* data_;
  std::size_t size_;
};

template <class Functor>
void run(unsigned num_threads, Functor f, unsigned block_threads = 256) {
  gpuheap::launch(num_threads, f, {.block_threads = block_threads});
  simt::synchronize({});
}

// Adds one to *count unless the condition holds.
GPUHEAP_FN inline void require(unsigned* count, bool holds) {
  if (!holds) simt::atomic_ref<unsigned>(*count).fetch_add(1u, simt::relaxed);
}

}  // namespace simt_test
