// Atomic access to words that certainly lie in global memory, as a heap's words do. Included by cuda/atomic.hpp.
//
// atomic_ref takes generic addresses. For these, ptxas emits three versions of every 64-bit read-modify-write (global, shared, local)
// behind branches. The versions need more registers, and more instruction fetches on rarely executed paths. Here the instruction names the
// global space, so there is one version.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/cuda/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Three orders beside those of C++. They order threads that pass memory on through read-modify-writes, and access this memory by addresses
// computed from the values that they read. docs/memory-orders.md says why a GPU keeps the orders, and names the tests.
//
//   order              closest in C++   on a GPU   for
//   `consume`          consume          relaxed    a load or read-modify-write of a thread that accesses only places whose addresses it
//                                                  computes from the value, and these only by stores, atomics and fences. The hardware
//                                                  starts none of these accesses before the value has arrived
//   `relay`            acq_rel          relaxed    a read-modify-write in the middle of such a chain, whose first thread released with a
//                                                  fence. That fence has made the thread's earlier accesses visible to the whole device.
//                                                  Also a store in the middle of such a chain, which acquires nothing
//   `consume_release`  acq_rel          release    a read-modify-write of a thread that also publishes accesses of its own. The thread uses
//                                                  what it acquires as a `consume` reader does
//
// The weak mode of the simulator explores exactly these promises. On a GPU an acquire would empty the SM's L1. The L1 also holds the
// geometry of the heap, which slow paths read again and again.
inline constexpr memory_order consume = relaxed;
inline constexpr memory_order relay = relaxed;
inline constexpr memory_order consume_release = release;

// Tells the simulator that this thread has used the result of each of its read-modify-writes since its last release, and has stored nothing
// since then. The whole device has then seen their effects, and a `relay` that follows passes them on. Compiles to nothing on a GPU.
GPUHEAP_FN inline void note_performed() {}

#if defined(__CUDA_ARCH__)

// Atomic access in device scope. Device, any thread. T: a 4- or 8-byte unsigned integer, naturally aligned, in global memory. The order is
// relaxed, acquire, release, acq_rel, or one of the three above; seq_cst is not offered.
template <class T>
class global_ref {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using word = conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  using machine = detail::global_instructions<word>;

 public:
  __device__ explicit global_ref(T& object) : at_{__cvta_generic_to_global(&object)} {}

  [[nodiscard]] __device__ T load(memory_order order) const { return static_cast<T>(machine::load(order, at_, word{})); }
  __device__ void store(T value, memory_order order) const { machine::store(order, at_, word{value}); }
  __device__ T exchange(T value, memory_order order) const { return static_cast<T>(machine::exchange(order, at_, word{value})); }
  __device__ T fetch_add(T value, memory_order order) const { return static_cast<T>(machine::fetch_add(order, at_, word{value})); }
  __device__ T fetch_sub(T value, memory_order order) const { return fetch_add(T{0} - value, order); }
  __device__ T fetch_and(T value, memory_order order) const { return static_cast<T>(machine::fetch_and(order, at_, word{value})); }
  __device__ T fetch_or(T value, memory_order order) const { return static_cast<T>(machine::fetch_or(order, at_, word{value})); }
  __device__ T fetch_min(T value, memory_order order) const { return static_cast<T>(machine::fetch_min(order, at_, word{value})); }
  __device__ T fetch_max(T value, memory_order order) const { return static_cast<T>(machine::fetch_max(order, at_, word{value})); }

  // On failure `expected` receives the current value. The load of a failed call has the acquire half of `success`, whatever the fourth
  // argument says. Never fails spuriously.
  __device__ bool compare_exchange(T& expected, T desired, memory_order success, memory_order) const {
    word const wanted = expected;
    word const found = machine::compare_exchange(success, at_, wanted, word{desired});
    expected = static_cast<T>(found);
    return found == wanted;
  }

 private:
  size_t at_;
};

#else

// Code that is not compiled for the device needs only the name.
template <class T>
using global_ref = atomic_ref<T>;

#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
