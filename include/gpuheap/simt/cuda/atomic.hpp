// The CUDA backend of atomic.hpp: libcu++'s atomic_ref with the order always named.
#pragma once

#include <gpuheap/simt/cuda/warp.hpp>
#include <gpuheap/simt/types.hpp>

#include <cuda/atomic>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
template <scope S>
inline constexpr ::cuda::thread_scope cuda_scope = S == scope::block    ? ::cuda::thread_scope_block
                                                   : S == scope::device ? ::cuda::thread_scope_device
                                                                        : ::cuda::thread_scope_system;
}

// Atomic access to an object that outlives the reference. T: an integer or pointer of 1, 2, 4 or 8 bytes, naturally aligned.
// Read-modify-writes of 1 and 2 bytes become loops over the enclosing word. Callable by any thread, and by the host on memory that it can
// reach.
template <class T, scope S = scope::device>
class atomic_ref {
 public:
  GPUHEAP_HD explicit atomic_ref(T& object) : ref_{object} {}

  [[nodiscard]] GPUHEAP_HD T load(memory_order order) const { return ref_.load(order); }
  GPUHEAP_HD void store(T value, memory_order order) const { ref_.store(value, order); }
  GPUHEAP_HD T exchange(T value, memory_order order) const { return ref_.exchange(value, order); }
  // On failure `expected` receives the current value. Never fails spuriously.
  GPUHEAP_HD bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure) const {
    return ref_.compare_exchange_strong(expected, desired, success, failure);
  }
  GPUHEAP_HD T fetch_add(T value, memory_order order) const { return ref_.fetch_add(value, order); }
  GPUHEAP_HD T fetch_sub(T value, memory_order order) const { return ref_.fetch_sub(value, order); }
  GPUHEAP_HD T fetch_and(T value, memory_order order) const { return ref_.fetch_and(value, order); }
  GPUHEAP_HD T fetch_or(T value, memory_order order) const { return ref_.fetch_or(value, order); }
  GPUHEAP_HD T fetch_xor(T value, memory_order order) const { return ref_.fetch_xor(value, order); }
  GPUHEAP_HD T fetch_min(T value, memory_order order) const { return ref_.fetch_min(value, order); }
  GPUHEAP_HD T fetch_max(T value, memory_order order) const { return ref_.fetch_max(value, order); }

 private:
  ::cuda::atomic_ref<T, detail::cuda_scope<S>> ref_;
};

// A fetch_or of two bytes that touches no byte beside them, which atomic_ref's does. The hardware has a compare-and-swap of two bytes.
// Device; in global memory. `order`: relaxed or acq_rel.
GPUHEAP_FN inline uint16_t fetch_or_16(uint16_t& object, uint16_t bits, memory_order order) {
#if defined(__CUDA_ARCH__)
  auto const at = __cvta_generic_to_global(&object);
  uint16_t before;
  asm volatile("ld.relaxed.gpu.global.b16 %0, [%1];" : "=h"(before) : "l"(at) : "memory");
  // Ends: a pass that goes on lost the word to another thread that changed it. Lock-free.
  GPUHEAP_NO_UNROLL
  while (true) {
    uint16_t const wanted = static_cast<uint16_t>(before | bits);
    uint16_t found;
    if (order == relaxed) {
      asm volatile("atom.relaxed.gpu.global.cas.b16 %0, [%1], %2, %3;" : "=h"(found) : "l"(at), "h"(before), "h"(wanted) : "memory");
    } else {
      asm volatile("atom.acq_rel.gpu.global.cas.b16 %0, [%1], %2, %3;" : "=h"(found) : "l"(at), "h"(before), "h"(wanted) : "memory");
    }
    if (found == before) return before;
    before = found;
  }
#else
  (void)object, (void)bits, (void)order;
  return 0;
#endif
}

// 16 bytes that change together, on hardware that can (has_atomic_16()). Elsewhere the call traps: no allocator may require it.
struct alignas(16) pair64 {
  uint64_t low, high;
};
[[nodiscard]] GPUHEAP_FN constexpr bool has_atomic_16() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return true;
#else
  return false;
#endif
}
// acquire on success and failure, release on success; device scope.
GPUHEAP_FN inline bool compare_exchange_16(pair64& object, pair64& expected, pair64 desired) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  pair64 found;
  asm volatile(
      "{\n\t.reg .b128 e, d, f;\n\tmov.b128 e, {%3, %4};\n\tmov.b128 d, {%5, %6};\n\t"
      "atom.acq_rel.gpu.global.cas.b128 f, [%2], e, d;\n\tmov.b128 {%0, %1}, f;\n\t}"
      : "=l"(found.low), "=l"(found.high)
      : "l"(&object), "l"(expected.low), "l"(expected.high), "l"(desired.low), "l"(desired.high)
      : "memory");
  bool const won = found.low == expected.low && found.high == expected.high;
  expected = found;
  return won;
#else
  (void)object, (void)expected, (void)desired;
  trap();
#endif
}

// Orders this thread's accesses before it with those after it, as `order` says, among the threads of scope S.
template <scope S = scope::device>
GPUHEAP_FN inline void fence(memory_order order) {
#if defined(__CUDA_ARCH__) && __CUDACC_VER_MAJOR__ >= 13
  // libcu++ makes an acquire of every release, which empties the SM's L1.
  if (S == scope::device && order == release) {
    asm volatile("fence.release.gpu;" ::: "memory");
    return;
  }
#endif
  ::cuda::atomic_thread_fence(order, detail::cuda_scope<S>);
}

// A load that may be served by this SM's L1: possibly stale until an acquire. For words that carry their own validation. T: 4 or 8 bytes.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T load_cached(T const& object) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8) {
    unsigned long long v;
    asm volatile("ld.ca.u64 %0, [%1];" : "=l"(v) : "l"(&object) : "memory");
    return ::cuda::std::bit_cast<T>(v);
  } else {
    unsigned v;
    asm volatile("ld.ca.u32 %0, [%1];" : "=r"(v) : "l"(&object) : "memory");
    return ::cuda::std::bit_cast<T>(v);
  }
#else
  return object;
#endif
}

// Plain accesses. Here they are what they say; the simulator checks them for data races.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T plain_read(T const& object) {
  return object;
}
template <class T>
GPUHEAP_FN inline void plain_write(T& object, T value) {
  object = value;
}

// Waiting politely for another warp. Short sleeps are no back-off on this hardware (all cost about 50 cycles up to 100 ns), so the sleep
// doubles up to about 1 us. Never wait for a lane of the own warp that could be behind this loop.
class back_off {
 public:
  GPUHEAP_FN void wait() {
#if defined(__CUDA_ARCH__)
    __nanosleep(ns_);
#endif
    ns_ = ns_ < 256 ? ns_ * 2 : ns_;
  }

 private:
  unsigned ns_ = 64;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt

#include <gpuheap/simt/cuda/global_ref.hpp>
