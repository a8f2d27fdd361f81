// Included by cuda/atomic.hpp. Atomic access to global memory, for words that certainly lie there: what heaps are made of.
//
// libcu++'s atomic_ref takes generic addresses. For those ptxas emits three versions of every 64-bit read-modify-write (global, shared,
// local) behind branches: more registers, and more instructions to fetch on paths that are cold anyway. Here the instruction names the
// space.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/cuda/atomic.hpp>
#include <gpuheap/simt/types.hpp>

#include <cuda/std/type_traits>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Orders between threads that pass something on through read-modify-writes and addresses computed from them.
//
// `dependent`: an acquire, for a reader that goes on only to places it computes from what it read, and there only with stores, atomics and
// fences. The hardware starts none of those before the value has arrived, so a relaxed instruction does, and the SM keeps its L1.
// `handed_on`: an acquire and release, for a read-modify-write in the middle of such a chain, whose first thread released with a fence:
// that fence has made the thread's earlier accesses visible to the whole device, so what comes later in the chain need not do it again.
// `handed_down`: the same for a store, where nothing is to be acquired.
// `handed_over`: the same for a thread that has done things of its own to hand over with it: it releases, with a fence, and what it takes
// over it goes on with as a `dependent` reader does.
// In the simulator, which knows the C++ model only, these are acquire, acq_rel, release and acq_rel. A full acquire empties the SM's L1,
// and with it the geometry of the heap, which slow paths read again and again.
inline constexpr memory_order dependent = relaxed;
inline constexpr memory_order handed_on = relaxed;
inline constexpr memory_order handed_down = relaxed;
inline constexpr memory_order handed_over = release;

#if defined(__CUDA_ARCH__)

#define GPUHEAP_ATOM_(order, op, bits, con, result, address, a) \
  asm volatile("atom." #order ".gpu.global." op ".b" #bits " %0, [%1], %2;" : "=" con(result) : "l"(address), con(a) : "memory")
#define GPUHEAP_ATOM_TYPED_(order, op, type, con, result, address, a) \
  asm volatile("atom." #order ".gpu.global." op "." type " %0, [%1], %2;" : "=" con(result) : "l"(address), con(a) : "memory")
#define GPUHEAP_CAS_(order, bits, con, result, address, expected, desired)   \
  asm volatile("atom." #order ".gpu.global.cas.b" #bits " %0, [%1], %2, %3;" \
               : "=" con(result)                                             \
               : "l"(address), con(expected), con(desired)                   \
               : "memory")
// One of the four orders; seq_cst is not offered. `order` is a constant after inlining, so one branch remains.
#define GPUHEAP_BY_ORDER_(order, INSTRUCTION, ...) \
  if ((order) == relaxed) {                        \
    INSTRUCTION(relaxed, __VA_ARGS__);             \
  } else if ((order) == acquire) {                 \
    INSTRUCTION(acquire, __VA_ARGS__);             \
  } else if ((order) == release) {                 \
    INSTRUCTION(release, __VA_ARGS__);             \
  } else {                                         \
    INSTRUCTION(acq_rel, __VA_ARGS__);             \
  }
#define GPUHEAP_LD_(order, bits, con, result, address) \
  asm volatile("ld." #order ".gpu.global.b" #bits " %0, [%1];" : "=" con(result) : "l"(address) : "memory")
#define GPUHEAP_ST_(order, bits, con, value, address) \
  asm volatile("st." #order ".gpu.global.b" #bits " [%0], %1;" ::"l"(address), con(value) : "memory")

// Device, any thread; device scope. T: a 4- or 8-byte unsigned integer, naturally aligned, in global memory.
template <class T>
class global_ref {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);

 public:
  __device__ explicit global_ref(T& object) : at_{__cvta_generic_to_global(&object)} {}

  [[nodiscard]] __device__ T load(memory_order order) const {
    word_type v;
    if (order == relaxed) {
      if constexpr (sizeof(T) == 8) {
        GPUHEAP_LD_(relaxed, 64, "l", v, at_);
      } else {
        GPUHEAP_LD_(relaxed, 32, "r", v, at_);
      }
    } else {
      if constexpr (sizeof(T) == 8) {
        GPUHEAP_LD_(acquire, 64, "l", v, at_);
      } else {
        GPUHEAP_LD_(acquire, 32, "r", v, at_);
      }
    }
    return static_cast<T>(v);
  }
  __device__ void store(T value, memory_order order) const {
    word_type const v = value;
    if (order == relaxed) {
      if constexpr (sizeof(T) == 8) {
        GPUHEAP_ST_(relaxed, 64, "l", v, at_);
      } else {
        GPUHEAP_ST_(relaxed, 32, "r", v, at_);
      }
    } else {
      if constexpr (sizeof(T) == 8) {
        GPUHEAP_ST_(release, 64, "l", v, at_);
      } else {
        GPUHEAP_ST_(release, 32, "r", v, at_);
      }
    }
  }
#define GPUHEAP_RMW_(name, op)                                         \
  __device__ T name(T value, memory_order order) const {               \
    word_type v;                                                       \
    word_type const a = value;                                         \
    if constexpr (sizeof(T) == 8) {                                    \
      GPUHEAP_BY_ORDER_(order, GPUHEAP_ATOM_, op, 64, "l", v, at_, a); \
    } else {                                                           \
      GPUHEAP_BY_ORDER_(order, GPUHEAP_ATOM_, op, 32, "r", v, at_, a); \
    }                                                                  \
    return static_cast<T>(v);                                          \
  }
#define GPUHEAP_RMW_TYPED_(name, op)                                            \
  __device__ T name(T value, memory_order order) const {                        \
    word_type v;                                                                \
    word_type const a = value;                                                  \
    if constexpr (sizeof(T) == 8) {                                             \
      GPUHEAP_BY_ORDER_(order, GPUHEAP_ATOM_TYPED_, op, "u64", "l", v, at_, a); \
    } else {                                                                    \
      GPUHEAP_BY_ORDER_(order, GPUHEAP_ATOM_TYPED_, op, "u32", "r", v, at_, a); \
    }                                                                           \
    return static_cast<T>(v);                                                   \
  }
  GPUHEAP_RMW_(exchange, "exch")
  GPUHEAP_RMW_(fetch_and, "and")
  GPUHEAP_RMW_(fetch_or, "or")
  GPUHEAP_RMW_TYPED_(fetch_add, "add")
  GPUHEAP_RMW_TYPED_(fetch_min, "min")
  GPUHEAP_RMW_TYPED_(fetch_max, "max")
#undef GPUHEAP_RMW_
#undef GPUHEAP_RMW_TYPED_
  __device__ T fetch_sub(T value, memory_order order) const { return fetch_add(T{0} - value, order); }

  // On failure `expected` receives the current value, read with `success`'s acquire half whatever `failure` says. Never fails spuriously.
  __device__ bool compare_exchange(T& expected, T desired, memory_order success, memory_order) const {
    word_type v;
    word_type const e = expected, d = desired;
    if constexpr (sizeof(T) == 8) {
      GPUHEAP_BY_ORDER_(success, GPUHEAP_CAS_, 64, "l", v, at_, e, d);
    } else {
      GPUHEAP_BY_ORDER_(success, GPUHEAP_CAS_, 32, "r", v, at_, e, d);
    }
    bool const won = v == e;
    expected = static_cast<T>(v);
    return won;
  }

 private:
  using word_type = ::cuda::std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  size_t at_;
};

#undef GPUHEAP_ATOM_
#undef GPUHEAP_ATOM_TYPED_
#undef GPUHEAP_CAS_
#undef GPUHEAP_BY_ORDER_
#undef GPUHEAP_LD_
#undef GPUHEAP_ST_

#else

// Where no device code is made, only the names are needed.
template <class T>
using global_ref = atomic_ref<T>;

#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
