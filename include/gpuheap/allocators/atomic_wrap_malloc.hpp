// `atomic_wrap_malloc`: a counter that starts again at 0 when it reaches the pool's end, whether or not blocks there are live.
// It is the "AWMalloc" of
//   M. Vinkler, V. Havran, "Register Efficient Memory Allocator for GPUs", HPG 2014 (extended in Computer Graphics Forum 34(8), 2015),
//   section 4, algorithm 2.
//
// Layout:    +0  count, all bytes ever handed out or passed over (8 bytes, alone in its 256)      +256  the pool, in units of 16 bytes
// malloc:    start = count; count += n. The block's offset is start modulo the pool's size. A block that would straddle the pool's end
//            begins at offset 0 instead, by one compare-and-swap that adds the passed-over bytes to the count. One add per thread, as in
//            the paper.
// free:      does nothing.
// Reuse:     every byte is reused one lap later, even if it is still in use (trait `overwrites`). The program must know that its blocks are
//            short-lived.
// Progress:  lock-free: a thread that loses the exchange at the pool's end lost it to a request that was served.
//
// Different from the paper: in the paper the counter itself wraps, by a compare-and-swap whose loser may get bytes that another thread was
// just given, within one lap. The paper's malloc also accepts a request larger than the pool, which overruns it, and its 32-bit counter
// overflows near 4 GiB. A 64-bit count that never falls has none of these faults. This version keeps the paper's fetch_add: with
// compare-and-swaps alone, the time would be quadratic in the number of threads that contend.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

class atomic_wrap_malloc {
 public:
  static constexpr allocator_traits traits{
      .name = "atomic_wrap_malloc",
      .title = "AWMalloc",
      .paper = "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014",
      .year = 2014,
      .variant = "one bump counter that wraps around",
      .reuse = "all memory after one lap, live or not",
      .free = frees::never,
      .overwrites = true,
  };

  // Returns memory of `bytes` > 0 bytes, aligned to 16; nullptr only if `bytes` exceeds the pool.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return take(bytes, 16); }
  GPUHEAP_FN void free(void*) const {}

  // As malloc(), but aligned to `alignment` bytes, a power of two; nullptr also if no aligned block of that size fits into the pool.
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment) const {
    return take(bytes, alignment < 16 ? 16 : alignment);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= pool_ && byte < pool_ + pool_bytes_;
  }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return pool_offset + 16; }

  [[nodiscard]] static atomic_wrap_malloc create(memory::region region, stream_ref stream) {
    atomic_wrap_malloc a;
    a.count_ = static_cast<simt::uint64_t*>(region.base);
    a.pool_ = static_cast<char*>(region.base) + pool_offset;
    a.pool_bytes_ = (region.bytes - pool_offset) & ~simt::size_t{15};
    simt::fill(region.base, 0, pool_offset, stream);
    return a;
  }
#endif

 private:
  static constexpr simt::size_t pool_offset = 256;

  GPUHEAP_FN void* take(simt::size_t bytes, simt::size_t alignment) const {
    // This comes before any arithmetic, so that the sums below stay under 2^64.
    if (bytes > pool_bytes_) return nullptr;
    simt::uint64_t const need = simt::round_up_pow2(bytes, 16);
    if (first_aligned(0, alignment) + need > pool_bytes_) return nullptr;
    simt::uint64_t const most = need + alignment - 16;  // with the bytes that alignment may pass over
    simt::atomic_ref<simt::uint64_t> const count{*count_};
    // Ends: a pass that does not return lost the pool's end to another request, which was served. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // relaxed, here and below: the count alone decides which thread owns which bytes, and a thread writes its bytes before it reads them.
      simt::uint64_t const begin = count.fetch_add(most, simt::relaxed);
      simt::uint64_t const lap = begin < pool_bytes_ ? 0 : begin - begin % pool_bytes_;
      simt::uint64_t const start = first_aligned(begin - lap, alignment);
      if (start + need <= pool_bytes_) return pool_ + start;
      simt::uint64_t expected = begin + most;
      if (count.compare_exchange(expected, lap + pool_bytes_ + most, simt::relaxed, simt::relaxed))
        return pool_ + first_aligned(0, alignment);
    }
  }

  // The first offset at or after `offset` whose address is aligned.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t first_aligned(simt::uint64_t offset, simt::size_t alignment) const {
    if (alignment <= 16) return offset;  // every offset is a multiple of 16
    auto const base = reinterpret_cast<simt::uintptr_t>(pool_);
    return simt::round_up_pow2(base + offset, alignment) - base;
  }

  simt::uint64_t* count_ = nullptr;
  char* pool_ = nullptr;
  simt::size_t pool_bytes_ = 0;  // a multiple of 16
};

static_assert(device_allocator<atomic_wrap_malloc>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
