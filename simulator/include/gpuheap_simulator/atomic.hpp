// Atomic operations of lanes. Each passes a scheduling point, and then performs the operation on the real memory. In the weak mode, the
// memory model then decides which value a load returns.
//
// On the host side (current() is null) these functions are the compiler's atomic operations, without a scheduling point. T is trivially
// copyable, has 1, 2, 4 or 8 bytes, and is naturally aligned.
#pragma once

#include <gpuheap_simulator/lane.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpuheap::simulator {

// The weak mode's part of each operation. The atomic operations call it after they have read or changed the real memory. Values are
// zero-extended bit patterns.
namespace weak {
// `latest` is the value in the real memory. Returns the value that the load sees: `latest` or an older one. With `cached`, the load may
// read an old line of the L1, so its value may be older than that of the lane's earlier reads.
[[nodiscard]] std::uint64_t load(lane* me, void const* p, unsigned size, std::uint64_t latest, order o, bool cached);
void store(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o);
void read_modify_write(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o);
// Records a compare-exchange that failed: a load that saw the latest value.
void observe(lane* me, void const* p, unsigned size, std::uint64_t latest, order o);
void fence(lane* me, order o);
void note_performed(lane* me);
// Checks a plain access of any size for data races. Called before a read, and after a write.
void plain_read(lane* me, void const* p, std::size_t bytes);
void plain_write(lane* me, void const* p, std::size_t bytes);
}  // namespace weak

namespace detail {
template <std::size_t Bytes>
struct bits_of;
template <>
struct bits_of<1> {
  using type = std::uint8_t;
};
template <>
struct bits_of<2> {
  using type = std::uint16_t;
};
template <>
struct bits_of<4> {
  using type = std::uint32_t;
};
template <>
struct bits_of<8> {
  using type = std::uint64_t;
};
template <class T>
using bits_t = typename bits_of<sizeof(T)>::type;

template <class T>
[[nodiscard]] inline std::uint64_t to_bits(T value) {
  return std::bit_cast<bits_t<T>>(value);
}
template <class T>
[[nodiscard]] inline T from_bits(std::uint64_t bits) {
  return std::bit_cast<T>(static_cast<bits_t<T>>(bits));
}

// ThreadSanitizer does not model fences. With it, a release fence makes the lane's later stores release stores, every release store also
// releases one common object, and an acquire fence acquires that object. So ThreadSanitizer sees at least the synchronisation that the
// program asked for.
[[nodiscard]] order order_under_tsan(lane* me, order o);

template <class T>
[[nodiscard]] [[gnu::always_inline]] inline order store_order(lane* me, order o) {
  if constexpr (GPUHEAP_SIMULATOR_TSAN_CALLER) return order_under_tsan(me, o);
  (void)me;
  return o;
}

// Applies `change` (old value to new value) as one atomic step; returns the old value.
template <class T, class Change>
[[gnu::always_inline]] inline T change_atomically(T& object, order o, Change change) {
  T before;
  __atomic_load(&object, &before, __ATOMIC_RELAXED);
  // Ends: lock-free; a pass fails only if another thread's change succeeded.
  for (;;) {
    T after = change(before);
    if (__atomic_compare_exchange(&object, &before, &after, false, change_constant(o), __ATOMIC_RELAXED)) return before;
  }
}

// The common part of all read-modify-writes: `act` performs the operation with the given order and returns the old value; `change` computes
// the new value from the old one.
template <class T, class Act, class Change>
[[gnu::always_inline]] inline T read_modify_write(T& object, operation what, order o, site where, Act act, Change change) {
  lane* const me = current();
  if (me == nullptr) return act(o);
  scheduling_point(me, what, where);
  T const before = act(store_order<T>(me, o));
  if (in_weak_mode(me)) [[unlikely]]
    weak::read_modify_write(me, &object, sizeof(T), to_bits(before), to_bits(change(before)), o);
  return before;
}
}  // namespace detail

template <class T>
[[nodiscard]] [[gnu::always_inline]] inline T load(T const& object, order o, site where) {
  lane* const me = current();
  if (me != nullptr) scheduling_point(me, operation::load, where);
  T value;
  __atomic_load(&object, &value, load_constant(o));
  if (me != nullptr && in_weak_mode(me)) [[unlikely]] {
    return detail::from_bits<T>(weak::load(me, &object, sizeof(T), detail::to_bits(value), o, false));
  }
  return value;
}

template <class T>
[[nodiscard]] [[gnu::always_inline]] inline T load_cached(T const& object, site where) {
  lane* const me = current();
  if (me != nullptr) scheduling_point(me, operation::load_cached, where);
  T value;
  __atomic_load(&object, &value, __ATOMIC_RELAXED);
  if (me != nullptr && in_weak_mode(me)) [[unlikely]] {
    return detail::from_bits<T>(weak::load(me, &object, sizeof(T), detail::to_bits(value), order::relaxed, true));
  }
  return value;
}

template <class T>
[[gnu::always_inline]] inline void store(T& object, T value, order o, site where) {
  lane* const me = current();
  if (me == nullptr) return __atomic_store(&object, &value, store_constant(o));
  scheduling_point(me, operation::store, where);
  if (in_weak_mode(me)) [[unlikely]] {
    T before;
    __atomic_exchange(&object, &value, &before, __ATOMIC_RELAXED);
    return weak::store(me, &object, sizeof(T), detail::to_bits(before), detail::to_bits(value), o);
  }
  __atomic_store(&object, &value, store_constant(detail::store_order<T>(me, o)));
}

template <class T>
[[gnu::always_inline]] inline T exchange(T& object, T value, order o, site where) {
  return detail::read_modify_write(
      object, operation::exchange, o, where,
      [&](order with) {
        T before;
        __atomic_exchange(&object, &value, &before, change_constant(with));
        return before;
      },
      [&](T) { return value; });
}

template <class T>
[[gnu::always_inline]] inline bool compare_exchange(T& object, T& expected, T desired, order success, order failure, site where) {
  lane* const me = current();
  order with = success;
  if (me != nullptr) {
    scheduling_point(me, operation::compare_exchange, where);
    with = detail::store_order<T>(me, success);
  }
  T const wanted = expected;
  bool const won = __atomic_compare_exchange(&object, &expected, &desired, false, change_constant(with), load_constant(failure));
  if (me != nullptr && in_weak_mode(me)) [[unlikely]] {
    if (won) {
      weak::read_modify_write(me, &object, sizeof(T), detail::to_bits(wanted), detail::to_bits(desired), success);
    } else {
      weak::observe(me, &object, sizeof(T), detail::to_bits(expected), failure);
    }
  }
  return won;
}

// T is an integer or a pointer. For a pointer, `amount` counts elements.
template <class T, class Difference>
[[gnu::always_inline]] inline T fetch_add(T& object, Difference amount, order o, site where) {
  return detail::read_modify_write(
      object, operation::fetch_add, o, where,
      [&](order with) {
        if constexpr (std::is_pointer_v<T>) {
          return __atomic_fetch_add(&object, amount * static_cast<Difference>(sizeof(std::remove_pointer_t<T>)), change_constant(with));
        } else {
          return __atomic_fetch_add(&object, amount, change_constant(with));
        }
      },
      [&](T before) { return static_cast<T>(before + amount); });
}
template <class T>
[[gnu::always_inline]] inline T fetch_and(T& object, T value, order o, site where) {
  return detail::read_modify_write(
      object, operation::fetch_and, o, where, [&](order with) { return __atomic_fetch_and(&object, value, change_constant(with)); },
      [&](T before) { return static_cast<T>(before & value); });
}
template <class T>
[[gnu::always_inline]] inline T fetch_or(T& object, T value, order o, site where) {
  return detail::read_modify_write(
      object, operation::fetch_or, o, where, [&](order with) { return __atomic_fetch_or(&object, value, change_constant(with)); },
      [&](T before) { return static_cast<T>(before | value); });
}
template <class T>
[[gnu::always_inline]] inline T fetch_xor(T& object, T value, order o, site where) {
  return detail::read_modify_write(
      object, operation::fetch_xor, o, where, [&](order with) { return __atomic_fetch_xor(&object, value, change_constant(with)); },
      [&](T before) { return static_cast<T>(before ^ value); });
}
template <class T>
[[gnu::always_inline]] inline T fetch_min(T& object, T value, order o, site where) {
  auto const change = [&](T before) { return before < value ? before : value; };
  return detail::read_modify_write(
      object, operation::fetch_min, o, where, [&](order with) { return detail::change_atomically(object, with, change); }, change);
}
template <class T>
[[gnu::always_inline]] inline T fetch_max(T& object, T value, order o, site where) {
  auto const change = [&](T before) { return before < value ? value : before; };
  return detail::read_modify_write(
      object, operation::fetch_max, o, where, [&](order with) { return detail::change_atomically(object, with, change); }, change);
}

void fence(order o, site where);
// In the weak mode, records that all that this lane has done and learned is visible to the whole device, so the lane's later stores of
// order::relay pass all of that on. No scheduling point.
inline void note_performed() {
  if (lane* const me = current(); me != nullptr && in_weak_mode(me)) [[unlikely]]
    weak::note_performed(me);
}

// Whether this processor has a compare-exchange of 16 bytes.
[[nodiscard]] constexpr bool has_atomic_16() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}
// A compare-exchange of 16 bytes: acquire on success and failure, release on success. In the weak mode it always sees the newest value.
// Each pointer points to 16 bytes, and `object` is aligned to 16. Returns whether it stored `desired`; otherwise `*expected` becomes the
// value found. Without has_atomic_16() it traps, or throws std::logic_error on the host.
bool compare_exchange_16(void* object, void* expected, void const* desired, site where);

// Plain accesses that the weak mode checks for data races. No scheduling points.
template <class T>
[[nodiscard]] inline T plain_read(T const& object, site where) {
  if (lane* const me = current(); me != nullptr && in_weak_mode(me)) [[unlikely]] {
    note(me, operation::plain_read, where);
    weak::plain_read(me, &object, sizeof(T));
  }
  return object;
}
template <class T>
inline void plain_write(T& object, T value, site where) {
  object = value;
  if (lane* const me = current(); me != nullptr && in_weak_mode(me)) [[unlikely]] {
    note(me, operation::plain_write, where);
    weak::plain_write(me, &object, sizeof(T));
  }
}

}  // namespace gpuheap::simulator
