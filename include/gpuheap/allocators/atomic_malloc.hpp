// `atomic_malloc`: one bump counter, whose time is a lower bound for the time of other allocators. It is the "Atomic" of
//   M. Vinkler, V. Havran, "Register Efficient Memory Allocator for GPUs", HPG 2014 (extended in Computer Graphics Forum 34(8), 2015),
//   section 4.
//
// Layout:    +0  top, the number of bytes handed out (8 bytes; the rest of 256 is unused)      +256  the pool, in units of 16 bytes
// malloc:    one fetch_add on top; the old value is the block's offset. One add per thread, as in the paper: no aggregation in the warp.
// free:      does nothing.
// Reuse:     none; only heap::reset makes memory available again.
// Progress:  wait-free, at most three atomics.
//
// Different from the paper: the counter has 64 bits. A request that does not fit undoes its addition, or sets the counter to the pool's end
// if other threads have added since. The published 32-bit counter keeps growing after exhaustion, wraps around, and hands out live memory
// again.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

class atomic_malloc {
 public:
  static constexpr allocator_traits traits{
      .name = "atomic_malloc",
      .title = "AtomicMalloc",
      .paper = "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014",
      .year = 2014,
      .variant = "one bump counter",
      .reuse = "none",
      .free = frees::never,
  };

  // Returns memory of `bytes` > 0 bytes, aligned to 16; nullptr if the rest of the pool is smaller.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return take(bytes, 16); }
  GPUHEAP_FN void free(void*) const {}

  // As malloc(), but aligned to `alignment` bytes, a power of two. A request takes alignment - 16 bytes more than the same request to
  // malloc().
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
    // This comes before any arithmetic, so that the sums below stay under 2^64: a pool is far smaller than 2^62 bytes.
    if (bytes > pool_bytes_) return nullptr;
    simt::uint64_t const need = simt::round_up_pow2(bytes, 16) + (alignment - 16);
    simt::atomic_ref<simt::uint64_t> const top{*top_};
    // relaxed: the counter alone decides which thread owns which bytes, and a thread writes its bytes before it reads them.
    simt::uint64_t const start = top.fetch_add(need, simt::relaxed);
    if (start + need <= pool_bytes_) {
      if (alignment <= 16) return pool_ + start;
      return reinterpret_cast<void*>(simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(pool_ + start), alignment));
    }
    // The request does not fit. If no other thread has added since, the rest from `start` to the pool's end stays for smaller requests.
    // If `start` lies in the pool, top stays at or above the pool's end until this thread stores `start`, and no block is handed out
    // meanwhile. So the exchange is right even if other threads have changed top and changed it back: no block reaches beyond `start`.
    simt::uint64_t mine = start + need;
    if (!top.compare_exchange(mine, start, simt::relaxed, simt::relaxed)) {
      // The counter stays below (threads in flight + 1) * pool, and does not wrap around.
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
