// The device's part of serving a program's malloc and free: the state that the host writes once for each context, and the two calls.
#pragma once

#include <gpuheap/heap_ref.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::device_malloc {

/// Why an allocator cannot serve a program's malloc; null: it can.
template <class Allocator>
constexpr char const* refusal_of() {
  if (Allocator::traits.overwrites) return "by design it returns memory that is still in use";
  if (Allocator::traits.free == frees::collectively) return "it frees all blocks of a warp together, and programs free one by one";
  if (Allocator::traits.warp_level) return "it serves whole warps, and a program's threads ask one by one";
  if (Allocator::traits.process_wide) return "it is CUDA's own malloc, which the program uses anyway";
  if (Allocator::traits.min_alignment < 16) return "it does not align its blocks to 16 bytes, as programs expect";
  return nullptr;
}

/// Tells the host that a request found no memory. `told` lies in device memory and is 1 once that was said; `refused` lies in host memory,
/// and only the first of many threads writes there.
GPUHEAP_COLD inline void tell_refusal(simt::uint32_t* told, simt::uint32_t* refused) {
  simt::atomic_ref<simt::uint32_t> const word{*told};
  // relaxed, all: the host looks at one word, and acts once the kernel has ended.
  if (word.load(simt::relaxed) != 0 || word.exchange(1, simt::relaxed) != 0) return;
  simt::atomic_ref<simt::uint32_t, simt::scope::system>{*refused}.store(1, simt::relaxed);
}

/// The heap of a context as kernels see it; all bytes are zero where there is none. Trivially copyable.
template <device_allocator Allocator>
struct device_state {
  heap_ref<Allocator, uncounted> heap;
  simt::uint64_t most;      // bytes that the heap can ever have: what asks for more is refused without a word to the host
  simt::uint32_t* told;     // device memory
  simt::uint32_t* refused;  // host memory; null: there is no heap

  /// `bytes` of memory, of which 0 count as 1, aligned to at least 16; nullptr when nothing fits and where there is no heap.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (refused == nullptr) return nullptr;
    void* const p = heap.malloc(bytes == 0 ? 1 : bytes);
    if (p == nullptr && bytes <= most) tell_refusal(told, refused);
    return p;
  }
  /// The same, aligned to `alignment`, a power of two. An allocator that knows no alignments serves those that its blocks happen to have.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    if (refused == nullptr) return nullptr;
    if (alignment <= Allocator::traits.min_alignment) return malloc(bytes);
    if (bytes == 0) bytes = 1;
    void* p;
    if constexpr (has_aligned_malloc<Allocator>) {
      p = heap.aligned_malloc(bytes, alignment);
    } else {
      p = heap.malloc(bytes < alignment ? alignment : bytes);
      if (reinterpret_cast<simt::uintptr_t>(p) % alignment != 0) {
        (void)heap.free(p);
        p = nullptr;
      }
    }
    if (p == nullptr && bytes <= most && alignment <= largest_alignment) tell_refusal(told, refused);
    return p;
  }
  /// Gives p back. nullptr does nothing; what is no block of the heap does nothing but to be counted, where the allocator notices.
  GPUHEAP_FN void free(void* p) const {
    if (refused != nullptr) (void)heap.free(p);
  }
};

}  // namespace gpuheap::device_malloc
