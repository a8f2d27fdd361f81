// Included by cuda/atomic.hpp. Atomic access to global memory, for words that certainly lie there: what heaps are made of.
//
// atomic_ref takes generic addresses. For those ptxas emits three versions of every 64-bit read-modify-write (global, shared,
// local) behind branches: more registers, and more instructions to fetch on paths that are cold anyway. Here the instruction names the
// space.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/cuda/atomic.hpp>
#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Orders between threads that pass something on through read-modify-writes and addresses computed from them.
//
//   order          C++ model   on a GPU   for
//   `dependent`    acquire     relaxed    a reader that accesses only places whose addresses it computes from the value, and these only by
//                                         stores, atomics and fences. The hardware starts none of them before the value has arrived
//   `handed_on`    acq_rel     relaxed    a read-modify-write in the middle of such a chain, whose first thread released with a fence. That
//                                         fence has made the thread's earlier accesses visible to the whole device
//   `handed_down`  release     relaxed    a store in the middle of such a chain, which acquires nothing
//   `handed_over`  acq_rel     release    a read-modify-write of a thread that also publishes accesses of its own. The thread uses what it
//                                         acquires as a `dependent` reader does
//
// The simulator, which knows only the C++ model, uses the orders of the second column. On a GPU a full acquire would empty the SM's L1, and
// with it the geometry of the heap, which slow paths read again and again.
inline constexpr memory_order dependent = relaxed;
inline constexpr memory_order handed_on = relaxed;
inline constexpr memory_order handed_down = relaxed;
inline constexpr memory_order handed_over = release;

// Says that this thread has used the result of each read-modify-write since its last release, and has stored nothing since then: so the
// whole device has seen them, and a `handed_on` that follows passes them on. Tells the simulator what the hardware knows. No instruction.
GPUHEAP_FN inline void note_performed() {}

#if defined(__CUDA_ARCH__)

// Device, any thread; device scope. T: a 4- or 8-byte unsigned integer, naturally aligned, in global memory. One of the four orders;
// seq_cst is not offered.
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

  // On failure `expected` receives the current value, read with `success`'s acquire half whatever `failure` says. Never fails spuriously.
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

// Where no device code is made, only the names are needed.
template <class T>
using global_ref = atomic_ref<T>;

#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
