// The sizes of a heap that grows: its first size, its largest size, and the step by which check() grows it after requests that found no
// memory. Host code only.
#pragma once

#include <gpuheap/memory/literals.hpp>
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The sizes of a heap that grows: heap{growth{.initial = 1_GiB, .at_most = 64_GiB}}. The heap reserves addresses for `at_most`
// bytes, which costs no memory. Only the part that the heap uses now has memory, on the current device.
struct growth {
  heap_size initial = 64_MiB;
  simt::size_t at_most = 0;  // bytes; 0: all memory of the device

  // @return the largest size in bytes: `at_most`, or the device's memory if `at_most` is 0
  [[nodiscard]] simt::size_t limit() const { return at_most != 0 ? at_most : memory::device.query()->total_bytes; }
};

// @brief The step by which a heap grows: heap.grow_when_exhausted({.bytes = 256_MiB}) or ({.factor = 2}). If both are set, the larger one
// counts. With neither, the heap does not grow by itself.
struct growth_step {
  simt::size_t bytes = 0;
  double factor = 1;  // the heap grows to `factor` times its capacity; at least 1

  // @return the bytes to add to a heap of `capacity` bytes
  [[nodiscard]] simt::size_t after(simt::size_t capacity) const {
    double const more = static_cast<double>(capacity) * (factor - 1);
    constexpr double most = 9.2e18;  // below 2^63
    auto const by_factor = static_cast<simt::size_t>(more < most ? more : most);
    return bytes > by_factor ? bytes : by_factor;
  }
  // @throws gpuheap::error if `factor` is less than 1
  void require_valid() const {
    if (factor >= 1) return;
    throw plain_error(
        text_of("gpuheap: growth_step::factor is %f, and a heap grows to that multiple of its capacity: give 1 or more", factor));
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
