// The CUDA backend of atomic.hpp. On the device, each operation on 4 or 8 bytes is one instruction, after a fence for seq_cst. On the host,
// each is a built-in of the compiler.
#pragma once

#include <gpuheap/simt/cuda/instructions.hpp>
#include <gpuheap/simt/cuda/warp.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {

// One order that is at least as strong as both orders of a compare-and-swap.
[[nodiscard]] GPUHEAP_HD constexpr memory_order both(memory_order success, memory_order failure) {
  if (success == seq_cst || failure == seq_cst) return seq_cst;
  if (failure == relaxed) return success;
  return success == release || success == acq_rel ? acq_rel : acquire;
}

// The operand of a fetch_add on T: a T, or for a pointer a number of elements of `unit` bytes each.
template <class T>
struct difference {
  using type = T;
  static constexpr size_t unit = 1;
};
template <class T>
struct difference<T*> {
  using type = ptrdiff_t;
  static constexpr size_t unit = sizeof(T);
};
template <>
struct difference<void*> {
  using type = ptrdiff_t;
  static constexpr size_t unit = 1;
};

#if defined(__CUDA_ARCH__)

// Atomic access to an object of 4 or 8 bytes.
template <class T, scope S>
class wide_access {
  using word = conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  using machine = instructions<word, S>;
  static constexpr bool is_signed = !is_pointer_v<T> && T(-1) < T(0);

 public:
  __device__ explicit wide_access(T& object) : at_{reinterpret_cast<size_t>(&object)} {}

  [[nodiscard]] __device__ T load(memory_order order) const { return bit_cast<T>(machine::load(begin(order), at_, word{})); }
  __device__ void store(T value, memory_order order) const { machine::store(begin(order, relaxed), at_, bit_cast<word>(value)); }
  __device__ T exchange(T value, memory_order order) const {
    return bit_cast<T>(machine::exchange(begin(order), at_, bit_cast<word>(value)));
  }
  __device__ bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure) const {
    memory_order const order = begin(both(success, failure));
    word const wanted = bit_cast<word>(expected);
    word const found = machine::compare_exchange(order, at_, wanted, bit_cast<word>(desired));
    expected = bit_cast<T>(found);
    return found == wanted;
  }
  __device__ T fetch_add(word more, memory_order order) const { return bit_cast<T>(machine::fetch_add(begin(order), at_, more)); }
  __device__ T fetch_and(T value, memory_order order) const {
    return bit_cast<T>(machine::fetch_and(begin(order), at_, bit_cast<word>(value)));
  }
  __device__ T fetch_or(T value, memory_order order) const {
    return bit_cast<T>(machine::fetch_or(begin(order), at_, bit_cast<word>(value)));
  }
  __device__ T fetch_xor(T value, memory_order order) const {
    return bit_cast<T>(machine::fetch_xor(begin(order), at_, bit_cast<word>(value)));
  }
  __device__ T fetch_min(T value, memory_order order) const {
    order = begin(order);
    if constexpr (is_signed) {
      return bit_cast<T>(machine::fetch_min_signed(order, at_, bit_cast<word>(value)));
    } else {
      return bit_cast<T>(machine::fetch_min(order, at_, bit_cast<word>(value)));
    }
  }
  __device__ T fetch_max(T value, memory_order order) const {
    order = begin(order);
    if constexpr (is_signed) {
      return bit_cast<T>(machine::fetch_max_signed(order, at_, bit_cast<word>(value)));
    } else {
      return bit_cast<T>(machine::fetch_max(order, at_, bit_cast<word>(value)));
    }
  }

 private:
  // Begins an operation, and returns the order that its instruction needs. For seq_cst that is `after_fence`: the fence before the
  // instruction takes part in the total order, and the instruction adds an acquire, or nothing for a store.
  static __device__ memory_order begin(memory_order order, memory_order after_fence = acquire) {
    if (order != seq_cst) return order;
    machine::fence_seq_cst();
    return after_fence;
  }
  size_t at_;
};

// Atomic access to an integer of 1 or 2 bytes: read-modify-writes are loops over the enclosing word.
template <class T, scope S>
class narrow_access {
  using machine = instructions<unsigned, S>;

 public:
  __device__ explicit narrow_access(T& object) : at_{reinterpret_cast<size_t>(&object)} {}

  [[nodiscard]] __device__ T load(memory_order order) const {
    if (order == seq_cst) machine::fence_seq_cst();
    if constexpr (sizeof(T) == 2) {
      return static_cast<T>(machine::load_16(order, at_));
    } else {
      return static_cast<T>(machine::load_8(order, at_));
    }
  }
  __device__ void store(T value, memory_order order) const {
    if (order == seq_cst) {
      machine::fence_seq_cst();
      order = relaxed;
    }
    if constexpr (sizeof(T) == 2) {
      machine::store_16(order, at_, static_cast<unsigned short>(value));
    } else {
      machine::store_8(order, at_, static_cast<unsigned short>(value));
    }
  }
  __device__ bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure) const {
    T const wanted = expected;
    bool won = false;
    expected = update(
        [&](T now) {
          won = now == wanted;
          return won ? desired : now;
        },
        both(success, failure));
    return won;
  }
  __device__ T exchange(T value, memory_order order) const {
    return update([&](T) { return value; }, order);
  }
  __device__ T fetch_add(T value, memory_order order) const {
    return update([&](T now) { return static_cast<T>(now + value); }, order);
  }
  __device__ T fetch_and(T value, memory_order order) const {
    return update([&](T now) { return static_cast<T>(now & value); }, order);
  }
  __device__ T fetch_or(T value, memory_order order) const {
    return update([&](T now) { return static_cast<T>(now | value); }, order);
  }
  __device__ T fetch_xor(T value, memory_order order) const {
    return update([&](T now) { return static_cast<T>(now ^ value); }, order);
  }
  __device__ T fetch_min(T value, memory_order order) const {
    return update([&](T now) { return now < value ? now : value; }, order);
  }
  __device__ T fetch_max(T value, memory_order order) const {
    return update([&](T now) { return now < value ? value : now; }, order);
  }

 private:
  // Replaces the value by change(value), and returns the value as it was.
  template <class Change>
  __device__ T update(Change change, memory_order order) const {
    size_t const word = at_ & ~size_t{3};
    unsigned const shift = static_cast<unsigned>(at_ & 3) * 8;
    unsigned const mask = (sizeof(T) == 2 ? 0xffffu : 0xffu) << shift;
    if (order == seq_cst) {
      machine::fence_seq_cst();
      order = acquire;
    }
    unsigned seen = machine::load(relaxed, word, 0u);
    // Ends: a pass that goes on lost the word to another thread that changed it. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      T const value = static_cast<T>(seen >> shift);
      unsigned const wanted = (seen & ~mask) | (static_cast<unsigned>(change(value)) << shift & mask);
      unsigned const found = machine::compare_exchange(order, word, seen, wanted);
      if (found == seen) return value;
      seen = found;
    }
  }
  size_t at_;
};

template <class T, scope S>
using access = conditional_t<sizeof(T) <= 2, narrow_access<T, S>, wide_access<T, S>>;

#else

// Atomic access in code that is not compiled for the device. GCC treats an order that is not a compile-time constant as seq_cst.
template <class T, scope>
class access {
 public:
  GPUHEAP_HD explicit access(T& object) : at_{&object} {}

  [[nodiscard]] GPUHEAP_HD T load(memory_order order) const { return __atomic_load_n(at_, static_cast<int>(order)); }
  GPUHEAP_HD void store(T value, memory_order order) const { __atomic_store_n(at_, value, static_cast<int>(order)); }
  GPUHEAP_HD T exchange(T value, memory_order order) const { return __atomic_exchange_n(at_, value, static_cast<int>(order)); }
  GPUHEAP_HD bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure) const {
    return __atomic_compare_exchange_n(at_, &expected, desired, false, static_cast<int>(both(success, failure)), static_cast<int>(failure));
  }
  template <class Difference>
  GPUHEAP_HD T fetch_add(Difference more, memory_order order) const {
    return __atomic_fetch_add(at_, more, static_cast<int>(order));
  }
  GPUHEAP_HD T fetch_and(T value, memory_order order) const { return __atomic_fetch_and(at_, value, static_cast<int>(order)); }
  GPUHEAP_HD T fetch_or(T value, memory_order order) const { return __atomic_fetch_or(at_, value, static_cast<int>(order)); }
  GPUHEAP_HD T fetch_xor(T value, memory_order order) const { return __atomic_fetch_xor(at_, value, static_cast<int>(order)); }
  GPUHEAP_HD T fetch_min(T value, memory_order order) const {
    T seen = load(relaxed);
    // Ends: a pass that goes on lost the object to another thread that changed it. Lock-free.
    while (!compare_exchange(seen, value < seen ? value : seen, order, relaxed)) {
    }
    return seen;
  }
  GPUHEAP_HD T fetch_max(T value, memory_order order) const {
    T seen = load(relaxed);
    // Ends: a pass that goes on lost the object to another thread that changed it. Lock-free.
    while (!compare_exchange(seen, seen < value ? value : seen, order, relaxed)) {
    }
    return seen;
  }

 private:
  T* at_;
};

#endif

}  // namespace detail

// Atomic access to an object that outlives the reference. T: an integer but bool, or a pointer, of 1, 2, 4 or 8 bytes, naturally aligned;
// on the device the object lies in global or shared memory. A read-modify-write of 1 or 2 bytes is a compare-and-swap loop on the enclosing
// 4-byte word. Any thread may call, and so may the host, for memory that it can access.
template <class T, scope S = scope::device>
class atomic_ref {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  static_assert(!is_same_v<T, bool>, "gpuheap: atomic_ref is for integers and pointers, not for bool: use an unsigned char");

 public:
  using difference_type = typename detail::difference<T>::type;

  GPUHEAP_HD explicit atomic_ref(T& object) : at_{object} {}

  [[nodiscard]] GPUHEAP_HD T load(memory_order order) const { return at_.load(order); }
  GPUHEAP_HD void store(T value, memory_order order) const { at_.store(value, order); }
  GPUHEAP_HD T exchange(T value, memory_order order) const { return at_.exchange(value, order); }
  // On failure `expected` receives the current value. Never fails spuriously.
  GPUHEAP_HD bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure) const {
    return at_.compare_exchange(expected, desired, success, failure);
  }
  GPUHEAP_HD T fetch_add(difference_type value, memory_order order) const { return at_.fetch_add(scaled(value), order); }
  GPUHEAP_HD T fetch_sub(difference_type value, memory_order order) const {
    return at_.fetch_add(scaled(static_cast<difference_type>(difference_type{} - value)), order);
  }
  GPUHEAP_HD T fetch_and(T value, memory_order order) const { return at_.fetch_and(value, order); }
  GPUHEAP_HD T fetch_or(T value, memory_order order) const { return at_.fetch_or(value, order); }
  GPUHEAP_HD T fetch_xor(T value, memory_order order) const { return at_.fetch_xor(value, order); }
  GPUHEAP_HD T fetch_min(T value, memory_order order) const { return at_.fetch_min(value, order); }
  GPUHEAP_HD T fetch_max(T value, memory_order order) const { return at_.fetch_max(value, order); }

 private:
  // The operand of the machine's addition: for a pointer, bytes.
  [[nodiscard]] GPUHEAP_HD static constexpr auto scaled(difference_type value) {
    if constexpr (is_pointer_v<T>) {
      return static_cast<size_t>(value) * detail::difference<T>::unit;
    } else {
      return value;
    }
  }
  detail::access<T, S> at_;
};

// A fetch_or of a 2-byte word that accesses no neighbouring byte, by the hardware's 2-byte compare-and-swap. atomic_ref's fetch_or accesses
// the enclosing 4-byte word. Device; `object` lies in global memory. `order`: relaxed or acq_rel.
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

// 16 bytes that one compare_exchange_16() changes, on hardware that can (has_atomic_16()). On other hardware that call traps, so no
// allocator may require it.
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
// Compare-and-swap of 16 bytes in device scope: acquire on success and failure, release on success. On failure `expected` receives the
// current value. `object` lies in global memory.
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
#if defined(__CUDA_ARCH__)
  if (order == relaxed) return;
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 13
  // fence.acq_rel would acquire as well, which empties the SM's L1. Before sm_90 the hardware has no fence.release; ptxas 13.0 accepts it
  // there and emits an instruction of zeros.
  if (S == scope::device && order == release) {
    asm volatile("fence.release.gpu;" ::: "memory");
    return;
  }
#endif
  if (order == seq_cst) {
    detail::instructions<unsigned, S>::fence_seq_cst();
  } else {
    detail::instructions<unsigned, S>::fence_acq_rel();
  }
#else
  __atomic_thread_fence(static_cast<int>(order));
#endif
}

// A load that the SM's L1 may serve: the value may be stale until the thread's next acquire. For words that the caller validates otherwise.
// T: 4 or 8 bytes.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T load_cached(T const& object) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8) {
    unsigned long long v;
    asm volatile("ld.ca.u64 %0, [%1];" : "=l"(v) : "l"(&object) : "memory");
    return bit_cast<T>(v);
  } else {
    unsigned v;
    asm volatile("ld.ca.u32 %0, [%1];" : "=r"(v) : "l"(&object) : "memory");
    return bit_cast<T>(v);
  }
#else
  return object;
#endif
}

// Plain accesses. On this backend they are ordinary loads and stores; the simulator checks them for data races.
template <class T>
[[nodiscard]] GPUHEAP_FN inline T plain_read(T const& object) {
  return object;
}
template <class T>
GPUHEAP_FN inline void plain_write(T& object, T value) {
  object = value;
}

// A pause in a loop that waits for another warp. The argument of __nanosleep is 64 ns at the first wait(), 128 ns at the second, and 256 ns
// from then on. __nanosleep took about 50 cycles for every argument up to 100 ns, so the first pause is short. A longer sleep takes up to
// twice as long as its argument says. A loop must not wait for a lane of the caller's own warp that may have left the loop: that lane may
// wait at the loop's end for the caller.
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
