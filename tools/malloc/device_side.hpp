// The device's part of serving a program's malloc and free: the state that the host writes once for each context, and the two calls.
#pragma once

#include <gpuheap/heap_ref.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::device_malloc {

/// The reason why an allocator cannot serve a program's malloc; null: it can.
template <class Allocator>
constexpr char const* refusal_of() {
  if (Allocator::traits.overwrites) return "by design it returns memory that is still in use";
  if (Allocator::traits.free == frees::collectively) return "it frees all blocks of a warp together, and programs free one by one";
  if (Allocator::traits.warp_level) return "it serves whole warps, and a program's threads ask one by one";
  if (Allocator::traits.process_wide) return "it is CUDA's own malloc, which the program uses anyway";
  if (Allocator::traits.min_alignment < 16) return "it does not align its blocks to 16 bytes, as programs expect";
  return nullptr;
}

/// Tells the host that a request found no memory. `told` is in device memory, and is 1 once a thread has told the host. `refused` is in
/// host memory, and of the kernels' threads only the one that sets `told` writes there.
GPUHEAP_COLD inline void tell_refusal(simt::uint32_t* told, simt::uint32_t* refused) {
  simt::atomic_ref<simt::uint32_t> const word{*told};
  // relaxed, all: the host only reads one word, and acts after the kernel has ended.
  if (word.load(simt::relaxed) != 0 || word.exchange(1, simt::relaxed) != 0) return;
  simt::atomic_ref<simt::uint32_t, simt::scope::system>{*refused}.store(1, simt::relaxed);
}

/// The heap of a context as kernels see it; all bytes are zero where there is none. Trivially copyable.
template <device_allocator Allocator>
struct device_state {
  heap_ref<Allocator, uncounted> heap;
  simt::uint64_t most;      // the most bytes that the heap can ever have; a request for more is refused, and the host is not told
  simt::uint32_t* told;     // device memory
  simt::uint32_t* refused;  // host memory; null: there is no heap

  /// Allocates `bytes` bytes, where 0 counts as 1, aligned to at least 16. Returns nullptr if nothing fits, or if there is no heap.
  /// `tag`: nothing, or the block_tag of the caller's place; also below.
  template <class... Tag>
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes, Tag... tag) const {
    if (refused == nullptr) return nullptr;
    void* const p = heap.malloc(bytes == 0 ? 1 : bytes, tag...);
    if (p == nullptr && bytes <= most) tell_refusal(told, refused);
    return p;
  }
  /// The same, aligned to `alignment`, a power of two. An allocator without aligned_malloc() serves the request only if its block happens
  /// to be aligned.
  template <class... Tag>
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment, Tag... tag) const {
    if (refused == nullptr) return nullptr;
    if (alignment <= Allocator::traits.min_alignment) return malloc(bytes, tag...);
    if (bytes == 0) bytes = 1;
    void* p;
    if constexpr (has_aligned_malloc<Allocator>) {
      p = heap.aligned_malloc(bytes, alignment, tag...);
    } else {
      p = heap.malloc(bytes < alignment ? alignment : bytes, tag...);
      if (reinterpret_cast<simt::uintptr_t>(p) % alignment != 0) {
        (void)heap.free(p);
        p = nullptr;
      }
    }
    if (p == nullptr && bytes <= most && alignment <= largest_alignment) tell_refusal(told, refused);
    return p;
  }
  /// Frees p. nullptr is ignored. Any other pointer that is no block of the heap is ignored too, and is counted if the allocator detects
  /// it.
  template <class... Tag>
  GPUHEAP_FN void free(void* p, Tag... tag) const {
    if (refused != nullptr) (void)heap.free(p, tag...);
  }
};

}  // namespace gpuheap::device_malloc
