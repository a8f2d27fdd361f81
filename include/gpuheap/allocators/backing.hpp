// The *backing* of an allocator: a second allocator, which gives the first one its memory, or serves the requests that are too large for
// the first one. Several published allocators have a backing; here it is a template parameter. This file has the default backing, a backing
// without memory, and the division of a heap's bytes between an allocator and its backing.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing_reference.hpp>
#include <gpuheap/allocators/cuda_malloc.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// A backing without memory: every request that reaches it fails. For heaps that must not use a second allocator, and for tests.
class refusing_backing {
 public:
  static constexpr allocator_traits traits{
      .name = "refusing_backing",
      .title = "No backing",
      .reuse = "none",
      .detects_foreign_free = true,
  };

  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t) const { return nullptr; }
  GPUHEAP_FN free_status free(void* p) const { return p == nullptr ? free_status::null : free_status::foreign; }
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void*) const { return 0; }
  [[nodiscard]] GPUHEAP_FN bool owns(void const*) const { return false; }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return 0; }
  [[nodiscard]] static refusing_backing create(memory::region, stream_ref) { return {}; }
#endif
};
static_assert(device_allocator<refusing_backing>);

// The backing as published: the CUDA toolkit's device heap. The simulator has no such heap, and uses a plain heap with a lock.
using default_backing = simt::conditional_t<simt::has_builtin_heap, cuda_malloc, backing_reference>;

namespace detail {

// Frees `p` in the backing, and returns the status; `done` if the backing does not report one. Device, any thread.
template <class Backing>
[[nodiscard]] GPUHEAP_FN free_status free_in(Backing const& backing, void* p) {
  if constexpr (answers_free<Backing>) {
    return backing.free(p);
  } else {
    backing.free(p);
    return p == nullptr ? free_status::null : free_status::done;
  }
}

#if GPUHEAP_HAS_HOST
// A heap's region in two parts: the allocator's own bytes from the base on, and the rest for the backing. Host.
template <class Backing>
struct backing_cut {
  simt::size_t own_bytes = 0;  // a multiple of 256
  memory::region rest{};       // a process_wide backing uses only its size, as a limit

  // Returns the bytes that the allocator keeps if the backing gets `percent` % of the region, or Backing::min_region_bytes() if that is
  // more. The result is the whole region if the backing needs no memory of it, and 0 if the region is too small.
  [[nodiscard]] static simt::size_t own_bytes_of(simt::size_t region_bytes, unsigned percent) {
    simt::size_t const least = Backing::min_region_bytes();
    if (least == 0) return region_bytes;
    // The division comes first: the product of a region's bytes and a percentage may exceed 64 bits.
    simt::size_t share = region_bytes / 100 * percent;
    if (share < least) share = least;
    return share < region_bytes ? (region_bytes - share) & ~simt::size_t{255} : 0;
  }

  [[nodiscard]] static backing_cut of(memory::region whole, unsigned percent) {
    simt::size_t const own = own_bytes_of(whole.bytes, percent);
    char* const base = static_cast<char*>(whole.base);
    return {own, {Backing::traits.process_wide ? nullptr : base + own, whole.bytes - own}};
  }
};
#endif

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
