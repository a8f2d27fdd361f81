// `cuda_malloc`: the toolkit's own in-kernel malloc and free (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and
// Operations").
// NVIDIA's implementation is closed source, so this class calls it.
//
// On an H200 with CUDA 13.0, kernels of 31,250 warps that free valid blocks of 8192 and of 1024 bytes sometimes end with an illegal
// address. That also happens in programs without this library. docs/decisions/published-allocators.md has the experiment.
//
// Reuse and progress: undocumented. A call's time grows with the heap's size and the number of live blocks, and contended calls can take
// seconds. One heap per context (trait `process_wide`): its size is a limit that must be set before the first kernel that uses it, so the
// first heap<cuda_malloc> sets it and a later one that asks for another size throws. The heap's address range is unknown, so there is no
// owns(). The heap cannot be emptied, so there is no reset. The host must not copy to or from its blocks except through a kernel
// (heap::copy_to_host does). The simulator has no such heap, so create() throws there.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <mutex>
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

class cuda_malloc {
 public:
  static constexpr allocator_traits traits{
      .name = "cuda_malloc",
      .title = "CUDA's device malloc",
      .paper = "NVIDIA: CUDA C++ Programming Guide",
      .year = 2010,
      .variant = "",
      .reuse = "undocumented",
      .process_wide = true,
      .full_reuse = false,
  };

  // Returns nullptr at once if the whole heap is smaller: CUDA 13.0's own malloc does not return for some sizes far beyond the heap's
  // (observed on an H200).
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return bytes <= limit_bytes_ ? simt::builtin_malloc(bytes) : nullptr; }
  GPUHEAP_FN void free(void* p) const { simt::builtin_free(p); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return 1; }

  // `limit.bytes` is the heap's size; `limit.base` is not used. The first call of the process sets the limit; a later call that asks for
  // another size throws plain_error. A process can use this allocator on one device only.
  [[nodiscard]] static cuda_malloc create(memory::region limit, stream_ref) {
    if constexpr (!simt::has_builtin_heap) {
      throw plain_error(
          "gpuheap: the allocator 'cuda_malloc' is the CUDA toolkit's own device heap, and the simulator has none: use another allocator, "
          "or the "
          "CUDA backend");
    } else {
      // This state belongs to no heap, because the limit belongs to the context.
      static std::mutex mutex;
      static simt::size_t asked_before = 0;
      std::lock_guard const lock{mutex};
      if (asked_before == 0) {
        set_limit(limit.bytes);
        asked_before = limit.bytes;
      } else if (asked_before != limit.bytes) {
        throw plain_error("gpuheap: cannot set CUDA's device heap to " + std::to_string(limit.bytes) +
                          " bytes: the first heap of this process set it to " + std::to_string(asked_before) +
                          ", and CUDA allows one size per process. Make all such heaps of one size, or use another process");
      }
      cuda_malloc heap;
      heap.limit_bytes_ = granted_bytes();
      return heap;
    }
  }

  // Returns the size that the driver granted, which is at least the requested one; 0 in the simulator.
  [[nodiscard]] static simt::size_t granted_bytes() {
    if constexpr (simt::has_builtin_heap) {
      return simt::builtin_heap_limit();
    } else {
      return 0;
    }
  }

 private:
  static void set_limit(simt::size_t bytes) {
    try {
      simt::set_builtin_heap_limit(bytes);
    } catch (error const& refused) {
      throw plain_error("gpuheap: the size of CUDA's device heap could not be set to " + std::to_string(bytes) +
                        " bytes: a kernel that uses it has run already, or the device has less memory. Make the heap before any such "
                        "kernel, or a smaller one. (" +
                        refused.what() + ")");
    }
    if (simt::size_t const granted = simt::builtin_heap_limit(); granted < bytes) {
      throw plain_error("gpuheap: of " + std::to_string(bytes) + " bytes for its device heap, CUDA grants " + std::to_string(granted) +
                        ": a kernel that uses the heap has run already, or the device has too little free memory. Make the heap before "
                        "any such kernel, or a smaller one");
    }
  }
#endif

 private:
  simt::size_t limit_bytes_ = 0;
};

static_assert(device_allocator<cuda_malloc>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
