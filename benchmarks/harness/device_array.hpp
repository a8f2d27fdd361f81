// An array in device memory that a case owns: pointers, sizes, flags. Host code; the elements are trivially copyable.
#pragma once

#include <gpuheap/simt/runtime.hpp>

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuheap::bench {

template <class T>
class device_array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Not initialised. Throws out_of_memory.
  explicit device_array(std::size_t count)
      : data_{static_cast<T*>(simt::allocate(simt::memory_kind::device, count == 0 ? 1 : count * sizeof(T)))}, count_{count} {}
  ~device_array() {
    if (data_ != nullptr) simt::deallocate(simt::memory_kind::device, data_);
  }
  device_array(device_array&& other) noexcept : data_{std::exchange(other.data_, nullptr)}, count_{std::exchange(other.count_, 0)} {}
  device_array& operator=(device_array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }

  void zero(stream_ref stream) {
    if (count_ != 0) simt::fill(data_, 0, count_ * sizeof(T), stream);
  }
  // Waits for the stream, so the source may go away at once.
  void upload(std::span<T const> from, stream_ref stream) {
    if (!from.empty()) simt::copy(data_, from.data(), from.size_bytes(), stream);
    simt::synchronize(stream);
  }
  // The contents once the stream is done.
  [[nodiscard]] std::vector<T> download(stream_ref stream) const {
    std::vector<T> out(count_);
    if (count_ != 0) simt::copy(out.data(), data_, count_ * sizeof(T), stream);
    simt::synchronize(stream);
    return out;
  }

 private:
  T* data_;
  std::size_t count_;
};

// A device copy of host data.
template <class T>
[[nodiscard]] device_array<T> on_device(std::vector<T> const& from, stream_ref stream) {
  device_array<T> array(from.size());
  array.upload(from, stream);
  return array;
}

// A stream of the case's own.
class owned_stream {
 public:
  owned_stream() : stream_{simt::make_stream()} {}
  ~owned_stream() { simt::destroy_stream(stream_); }
  owned_stream(owned_stream const&) = delete;
  owned_stream& operator=(owned_stream const&) = delete;
  operator stream_ref() const { return stream_; }

 private:
  stream_ref stream_;
};

}  // namespace gpuheap::bench
