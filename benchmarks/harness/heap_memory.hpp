// The memory that a heap of a benchmark lies in.
#pragma once

#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "harness/device_array.hpp"

namespace gpuheap::bench {

// The memory of a heap. One piece is kept when its heap goes, as the next point of a sweep asks for the same size again.
class heap_memory {
 public:
  // Throws out_of_memory.
  explicit heap_memory(std::size_t bytes) : array_{take(bytes)} {}
  ~heap_memory() {
    if (array_.size() != 0) kept() = std::move(array_);
  }
  heap_memory(heap_memory const&) = delete;
  heap_memory& operator=(heap_memory const&) = delete;

  // Gives back what is kept, after a sweep: a process that waits for another holds no memory that others may need.
  static void forget() { kept().reset(); }

  [[nodiscard]] unsigned char* data() const { return array_.data(); }
  [[nodiscard]] std::size_t size() const { return array_.size(); }

 private:
  // Never destroyed: when it would be, there may be no device any more.
  static std::optional<device_array<unsigned char>>& kept() {
    static auto* const one = new std::optional<device_array<unsigned char>>;
    return *one;
  }
  static device_array<unsigned char> take(std::size_t bytes) {
    auto before = std::exchange(kept(), std::nullopt);
    if (before && before->size() == bytes) return std::move(*before);
    before.reset();  // two at once may be too many
    try {
      return device_array<unsigned char>(bytes);
    } catch (out_of_memory const& refused) {
      throw out_of_memory("a heap of " + memory::format_bytes(bytes) + " cannot be had, " +
                          memory::format_bytes(simt::query_device().free_bytes) + " are free: ask for less with --heap-bytes (" +
                          refused.what() + ")");
    }
  }

  device_array<unsigned char> array_;
};

}  // namespace gpuheap::bench
