// The baselines scan_malloc and scan_malloc_async: memory for a kernel's threads as programs without a device heap get it. Each thread says
// how much it needs, the sums of what the threads before it need are its offset, and the host allocates for all of them at once: with
// cudaMalloc, or from the stream's pool with cudaMallocAsync. In the simulator both are the host's allocation.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/scan.hpp>

#include "harness/device_array.hpp"

namespace gpuheap::bench {

// Not an allocator: no thread makes requests. The cases that take it use `batch`.
template <bool Pooled>
struct scan_and_allocate {
  static constexpr bool is_baseline = true;
  static constexpr bool allocates_from_host = true;
  static constexpr allocator_traits traits{
      .name = Pooled ? "scan_malloc_async" : "scan_malloc",
      .title = Pooled ? "a prefix sum, then one cudaMallocAsync by the host" : "a prefix sum, then one cudaMalloc by the host",
      .reuse = "nothing is managed",
      .free = frees::collectively,
  };

  // One allocation for all threads of a kernel.
  class batch {
   public:
    explicit batch(std::size_t count) : offsets_(count + 1), work_(simt::exclusive_scan_bytes(count + 1)) {}
    ~batch() { deallocate({}); }
    batch(batch const&) = delete;
    batch& operator=(batch const&) = delete;

    // `sizes`: what each thread needs, and 0 behind the last. Thread i may write its bytes at base() + offsets()[i]. Waits for the stream.
    // Throws out_of_memory.
    void take(simt::uint64_t const* sizes, stream_ref stream) {
      simt::exclusive_scan(work_.data(), work_.size(), sizes, offsets_.data(), offsets_.size(), stream);
      simt::uint64_t total = 0;
      simt::copy(&total, offsets_.data() + offsets_.size() - 1, sizeof total, stream);
      simt::synchronize(stream);
      void* const all = Pooled ? simt::allocate_async(total, stream) : simt::allocate(simt::memory_kind::device, total);
      base_ = static_cast<unsigned char*>(all);
    }
    void deallocate(stream_ref stream) noexcept {
      if (base_ == nullptr) return;
      if (Pooled) {
        simt::deallocate_async(base_, stream);
      } else {
        simt::deallocate(simt::memory_kind::device, base_);
      }
      base_ = nullptr;
    }

    [[nodiscard]] unsigned char* base() const { return base_; }
    [[nodiscard]] simt::uint64_t const* offsets() const { return offsets_.data(); }

   private:
    device_array<simt::uint64_t> offsets_;
    device_array<unsigned char> work_;
    unsigned char* base_ = nullptr;
  };
};

using scan_malloc = scan_and_allocate<false>;
using scan_malloc_async = scan_and_allocate<true>;

}  // namespace gpuheap::bench
