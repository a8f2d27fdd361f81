// Memory from any resource of CUDA's `cuda::mr`, such as those of RMM and CCCL. Host code of the CUDA backend only. The file defines
// nothing without a CUDA toolkit.
#pragma once

#include <gpuheap/memory/resource.hpp>

#if __has_include(<cuda_runtime_api.h>)
// Toolkits up to 13.0 show cuda::mr only if the macro below is defined before the first include of <cuda/memory_resource>. Newer toolkits
// ignore it.
#if !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>

#include <new>
#include <optional>
#include <string>
#include <utility>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

namespace detail {
inline constexpr simt::size_t cuda_mr_alignment = 256;

// CCCL 3.0 calls the synchronous pair allocate and deallocate. Later versions give these names to the stream-ordered pair, and call the
// synchronous one allocate_sync and deallocate_sync. The members of the resource tell which version it was written for, so no version
// number is needed.
template <class R>
concept renamed_cuda_resource = requires(R& r, void* p, simt::size_t n) {
  { r.allocate_sync(n, n) } -> std::same_as<void*>;
  r.deallocate_sync(p, n, n);
};
template <class R>
concept original_cuda_resource = requires(R& r, void* p, simt::size_t n) {
  { r.allocate(n, n) } -> std::same_as<void*>;
  r.deallocate(p, n, n);
};
template <class R>
inline constexpr bool is_device_accessible = ::cuda::has_property<R, ::cuda::mr::device_accessible>;
}  // namespace detail

// A cuda::mr resource with the synchronous interface, whose memory kernels can access.
template <class R>
concept cuda_resource = std::copy_constructible<R> && detail::is_device_accessible<R> &&
    (detail::renamed_cuda_resource<R> || detail::original_cuda_resource<R>);

// A memory::source over a cuda::mr resource, which it holds by value. For a resource that must not be copied, pass a
// cuda::mr::resource_ref, and keep its target alive.
template <cuda_resource R>
class cuda_mr {
 public:
  explicit cuda_mr(R r) : held_{std::move(r)} {}

  // Throws out_of_memory if the resource throws std::bad_alloc. Other exceptions pass through.
  [[nodiscard]] void* allocate(simt::size_t bytes) const try {
    if constexpr (detail::renamed_cuda_resource<R>) {
      return held_.allocate_sync(bytes, detail::cuda_mr_alignment);
    } else {
      return held_.allocate(bytes, detail::cuda_mr_alignment);
    }
  } catch (std::bad_alloc const& refused) {
    throw simt::out_of_memory("gpuheap: " + name() + " refused " + std::to_string(bytes) + " bytes: " + refused.what());
  }
  // Waits for the device before it frees, because a pool may hand the memory out again at once.
  void deallocate(void* p, simt::size_t bytes) const noexcept {
    try {
      simt::synchronize_device();
    } catch (simt::error const&) {  // a failure of an earlier kernel, which the wait for that kernel reports
    }
    if constexpr (detail::renamed_cuda_resource<R>) {
      held_.deallocate_sync(p, bytes, detail::cuda_mr_alignment);
    } else {
      held_.deallocate(p, bytes, detail::cuda_mr_alignment);
    }
  }
  // Always empty: cuda::mr has no query for the size of a resource.
  [[nodiscard]] std::optional<capacity> query() const { return std::nullopt; }
  [[nodiscard]] std::string name() const { return "the cuda::mr resource"; }

 private:
  mutable R held_;  // cuda::mr declares allocate() non-const
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
