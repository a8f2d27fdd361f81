// `atomic`: one counter that only rises, the lower bound that allocators are measured against. The "Atomic" of
//   M. Vinkler, V. Havran, "Register Efficient Memory Allocator for GPUs", HPG 2014 (extended in Computer Graphics Forum 34(8), 2015),
//   section 4.
//
// Layout:    +0  top, the bytes handed out (8 bytes, alone in 256)      +256  the pool, units of 16 bytes
// malloc:    one fetch_add on top; the old value is the block's offset. One add per thread, as in the paper: no aggregation in the warp.
// free:      does nothing.
// Reuse:     none; memory comes back by heap::reset alone.
// Progress:  wait-free, at most three atomics.
//
// Different from the paper: the counter has 64 bits, and a request that does not fit takes its add back or, where that is no longer
// possible, saturates the counter at the pool's end. The published 32-bit counter keeps growing after exhaustion, wraps, and hands out live
// memory again.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

class atomic_malloc {
 public:
  static constexpr allocator_traits traits{
      .name = "atomic",
      .title = "AtomicMalloc",
      .paper = "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014",
      .year = 2014,
      .variant = "one bump counter",
      .reuse = "none",
      .free = frees::never,
  };

  // `bytes` > 0.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return take(bytes, 16); }
  GPUHEAP_FN void free(void*) const {}

  // `alignment`: a power of two. Takes up to alignment - 16 bytes more than malloc.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    return take(bytes, alignment < 16 ? 16 : alignment);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= pool_ && byte < pool_ + pool_bytes_;
  }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return pool_offset + 16; }

  [[nodiscard]] static atomic_malloc create(memory::region region, stream_ref stream) {
    atomic_malloc a;
    a.top_ = static_cast<simt::uint64_t*>(region.base);
    a.pool_ = static_cast<char*>(region.base) + pool_offset;
    a.pool_bytes_ = (region.bytes - pool_offset) & ~simt::size_t{15};
    simt::fill(region.base, 0, pool_offset, stream);
    return a;
  }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    simt::uint64_t top = 0;
    simt::copy(&top, top_, sizeof top, stream);
    simt::synchronize(stream);
    simt::size_t const held = top < pool_bytes_ ? top : pool_bytes_;
    return {.held_bytes = held, .metadata_bytes = pool_offset, .peak_held_bytes = held};
  }
#endif

 private:
  static constexpr simt::size_t pool_offset = 256;

  GPUHEAP_FN void* take(simt::size_t bytes, simt::size_t alignment) const {
    // Before any arithmetic: the sums below stay under 2^64, since a pool is far smaller than 2^62 bytes.
    if (bytes > pool_bytes_) return nullptr;
    simt::uint64_t const need = simt::round_up_pow2(bytes, 16) + (alignment - 16);
    simt::atomic_ref<simt::uint64_t> const top{*top_};
    // relaxed: the counter alone decides who owns which bytes, and nothing is read from them before their owner writes.
    simt::uint64_t const start = top.fetch_add(need, simt::relaxed);
    if (start + need <= pool_bytes_) {
      if (alignment <= 16) return pool_ + start;
      return reinterpret_cast<void*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(pool_ + start), alignment));
    }
    // It did not fit: the rest [start, pool) stays for smaller requests if nobody has added since. While top is above the pool's end
    // nothing is handed out, so whoever finds its own sum there again, even after others came and went, puts back a value at or above the
    // end of the last block: no overlap.
    simt::uint64_t mine = start + need;
    if (!top.compare_exchange(mine, start, simt::relaxed, simt::relaxed)) {
      // Saturate: the counter stays below pool + (threads in flight) * pool, far from wrapping.
      top.fetch_min(pool_bytes_, simt::relaxed);
    }
    return nullptr;
  }

  simt::uint64_t* top_ = nullptr;
  char* pool_ = nullptr;
  simt::size_t pool_bytes_ = 0;  // a multiple of 16
};

static_assert(device_allocator<atomic_malloc>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
