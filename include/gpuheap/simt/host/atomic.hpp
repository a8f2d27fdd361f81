// The host backend of atomic.hpp: forwards to the simulator. Each operation of a lane is a scheduling point. In the weak mode a load may
// return any value that the C++ memory model still allows. The simulator treats every scope as the whole machine. The last parameter of
// each operation is the caller's place in the source, for reports; callers leave it out.
#pragma once

#include <gpuheap/simt/host/warp.hpp>
#include <gpuheap/simt/types.hpp>

#include <gpuheap_simulator/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
[[nodiscard]] constexpr ::gpuheap::simulator::order to_order(memory_order order) { return static_cast<::gpuheap::simulator::order>(order); }
static_assert(to_order(relaxed) == ::gpuheap::simulator::order::relaxed && to_order(acquire) == ::gpuheap::simulator::order::acquire &&
              to_order(release) == ::gpuheap::simulator::order::release && to_order(acq_rel) == ::gpuheap::simulator::order::acq_rel &&
              to_order(seq_cst) == ::gpuheap::simulator::order::seq_cst);

// The operand of a fetch_add on T: a T, or for a pointer a number of elements.
template <class T>
struct difference {
  using type = T;
};
template <class T>
struct difference<T*> {
  using type = ptrdiff_t;
};
template <class T>
using difference_t = typename difference<T>::type;
}  // namespace detail

// Atomic access to an object that outlives the reference. T: an integer but bool, or a pointer, of 1, 2, 4 or 8 bytes, naturally aligned.
// Any thread may call, and so may the host.
template <class T, scope S = scope::device>
class atomic_ref {
  static_assert(!is_same_v<T, bool>, "gpuheap: atomic_ref is for integers and pointers, not for bool: use an unsigned char");

 public:
  using difference_type = detail::difference_t<T>;

  explicit atomic_ref(T& object) : object_{&object} {}

  [[nodiscard]] T load(memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::load(*object_, detail::to_order(order), where);
  }
  void store(T value, memory_order order, detail::site where = detail::site::here()) const {
    ::gpuheap::simulator::store(*object_, value, detail::to_order(order), where);
  }
  T exchange(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::exchange(*object_, value, detail::to_order(order), where);
  }
  // On failure `expected` receives the current value. Never fails spuriously.
  bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure,
                        detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::compare_exchange(*object_, expected, desired, detail::to_order(success), detail::to_order(failure), where);
  }
  T fetch_add(difference_type value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_add(*object_, value, detail::to_order(order), where);
  }
  T fetch_sub(difference_type value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_add(*object_, static_cast<difference_type>(difference_type{} - value), detail::to_order(order),
                                           where);
  }
  T fetch_and(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_and(*object_, value, detail::to_order(order), where);
  }
  T fetch_or(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_or(*object_, value, detail::to_order(order), where);
  }
  T fetch_xor(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_xor(*object_, value, detail::to_order(order), where);
  }
  T fetch_min(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_min(*object_, value, detail::to_order(order), where);
  }
  T fetch_max(T value, memory_order order, detail::site where = detail::site::here()) const {
    return ::gpuheap::simulator::fetch_max(*object_, value, detail::to_order(order), where);
  }

 private:
  T* object_;
};

// Atomic access to words that certainly lie in global memory. On this backend it is atomic_ref.
template <class T>
using global_ref = atomic_ref<T>;

// cuda/global_ref.hpp has the table of these orders. The weak mode explores what a GPU allows: a plain read after a `consume` may find an
// old line in the L1, and a `relay` carries only what has reached the whole device.
inline constexpr memory_order consume = static_cast<memory_order>(::gpuheap::simulator::order::consume);
inline constexpr memory_order relay = static_cast<memory_order>(::gpuheap::simulator::order::relay);
inline constexpr memory_order consume_release = static_cast<memory_order>(::gpuheap::simulator::order::consume_release);

// A fetch_or of a 2-byte word that accesses no neighbouring byte.
inline uint16_t fetch_or_16(uint16_t& object, uint16_t bits, memory_order order, detail::site where = detail::site::here()) {
  return ::gpuheap::simulator::fetch_or(object, bits, detail::to_order(order), where);
}

// 16 bytes that one compare_exchange_16() changes, on hardware that can (has_atomic_16()). On other hardware that call traps, so no
// allocator may require it.
struct alignas(16) pair64 {
  uint64_t low, high;
};
[[nodiscard]] constexpr bool has_atomic_16() { return ::gpuheap::simulator::has_atomic_16(); }
// Compare-and-swap of 16 bytes in device scope: acquire on success and failure, release on success. On failure `expected` receives the
// current value. `object` lies in global memory.
inline bool compare_exchange_16(pair64& object, pair64& expected, pair64 desired, detail::site where = detail::site::here()) {
  return ::gpuheap::simulator::compare_exchange_16(&object, &expected, &desired, where);
}

// Orders this thread's accesses before it with those after it, as `order` says, among the threads of scope S.
template <scope S = scope::device>
inline void fence(memory_order order, detail::site where = detail::site::here()) {
  ::gpuheap::simulator::fence(detail::to_order(order), where);
}

// Tells the simulator that this thread's read-modify-writes have been performed; cuda/global_ref.hpp says when that is true.
inline void note_performed() { ::gpuheap::simulator::note_performed(); }

// A load that the SM's L1 may serve: the value may be stale until the thread's next acquire. For words that the caller validates otherwise.
// T: 4 or 8 bytes.
template <class T>
[[nodiscard]] inline T load_cached(T const& object, detail::site where = detail::site::here()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return ::gpuheap::simulator::load_cached(object, where);
}

// Plain accesses. The weak mode checks them for data races.
template <class T>
[[nodiscard]] inline T plain_read(T const& object, detail::site where = detail::site::here()) {
  return ::gpuheap::simulator::plain_read(object, where);
}
template <class T>
inline void plain_write(T& object, T value, detail::site where = detail::site::here()) {
  ::gpuheap::simulator::plain_write(object, value, where);
}

// A pause in a loop that waits for another warp. On this backend it lets another lane run.
class back_off {
 public:
  void wait(detail::site where = detail::site::here()) { ::gpuheap::simulator::back_off(where); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
