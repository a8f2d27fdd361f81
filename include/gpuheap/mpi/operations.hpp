// The predefined reductions on the predefined datatypes. Device code.
#pragma once

#include <gpuheap/mpi/datatypes.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

namespace detail {
// The classes of datatypes for which MPI defines operations (MPI 3.1, section 5.9.2): arithmetic operations for integers and floating-point
// numbers, logical ones for integers and booleans, bitwise ones for integers and bytes, and min_loc and max_loc for pairs of a value and
// its index.
[[nodiscard]] GPUHEAP_HD constexpr bool is_integer(datatype type) { return type >= datatype::int8 && type <= datatype::uint64; }
[[nodiscard]] GPUHEAP_HD constexpr bool is_floating(datatype type) { return type == datatype::float32 || type == datatype::float64; }
[[nodiscard]] GPUHEAP_HD constexpr bool is_pair(datatype type) { return type >= datatype::float_int && type <= datatype::short_int; }
}  // namespace detail

// A reduction operation that the program defines. `combine` sets inout[i] = in[i] op inout[i] for `*count` elements.
struct user_operation {
  using function = void (*)(void* in, void* inout, int* count, datatype* type);
  function combine;
  bool commutes;
};
[[nodiscard]] GPUHEAP_FN constexpr bool is_users(operation op) { return op >= operation::num_predefined; }
[[nodiscard]] GPUHEAP_FN inline user_operation* operation_of(operation op) { return reinterpret_cast<user_operation*>(op); }

// Whether MPI defines the predefined `op` for elements of the predefined `type`.
[[nodiscard]] GPUHEAP_HD constexpr bool is_defined(operation op, datatype type) {
  switch (op) {
    case operation::sum:
    case operation::prod:
    case operation::max:
    case operation::min:
      return detail::is_integer(type) || detail::is_floating(type);
    case operation::land:
    case operation::lor:
    case operation::lxor:
      return detail::is_integer(type) || type == datatype::boolean;
    case operation::band:
    case operation::bor:
    case operation::bxor:
      return detail::is_integer(type) || type == datatype::byte;
    case operation::max_loc:
    case operation::min_loc:
      return detail::is_pair(type);
    case operation::null:
    case operation::replace:
    case operation::num_predefined:
      break;
  }
  return false;
}
static_assert(is_defined(operation::sum, datatype::float64) && !is_defined(operation::sum, datatype::char_type));
static_assert(is_defined(operation::bor, datatype::byte) && !is_defined(operation::bor, datatype::float32));
static_assert(is_defined(operation::min_loc, datatype::two_int) && !is_defined(operation::min_loc, datatype::int32));

namespace detail {
template <class T>
[[nodiscard]] GPUHEAP_FN constexpr T combined(operation op, T a, T b) {
  if constexpr (simt::integral<T>) {
    switch (op) {
      case operation::land:
        return static_cast<T>(a && b);
      case operation::lor:
        return static_cast<T>(a || b);
      case operation::lxor:
        return static_cast<T>(!a != !b);
      case operation::band:
        return static_cast<T>(a & b);
      case operation::bor:
        return static_cast<T>(a | b);
      case operation::bxor:
        return static_cast<T>(a ^ b);
      default:
        break;
    }
  }
  switch (op) {
    case operation::sum:
      return static_cast<T>(a + b);
    case operation::prod:
      return static_cast<T>(a * b);
    case operation::max:
      return a < b ? b : a;
    default:
      return b < a ? b : a;
  }
}
// The larger or the smaller of two values with their indices. Of equal values it is the one with the lower index.
template <class T>
[[nodiscard]] GPUHEAP_FN constexpr located<T> combined(operation op, located<T> a, located<T> b) {
  bool const other_wins = op == operation::max_loc ? a.value < b.value : b.value < a.value;
  bool const same = !(a.value < b.value) && !(b.value < a.value);
  if (same) return {a.value, a.index < b.index ? a.index : b.index};
  return other_wins ? b : a;
}
template <class T>
GPUHEAP_FN void combine_elements(operation op, void* into, void const* with, simt::size_t count) {
  auto* const a = static_cast<T*>(into);
  auto const* const b = static_cast<T const*>(with);
  for (simt::size_t i = 0; i < count; ++i) a[i] = combined(op, a[i], b[i]);
}
}  // namespace detail

// Whether elements of `type` can be reduced by `op`.
[[nodiscard]] GPUHEAP_FN inline bool can_combine(operation op, datatype type) {
  return is_users(op) ? is_datatype(type) : !is_derived(type) && is_defined(op, type);
}

// Sets into[i] = into[i] op with[i] for `count` elements. `into` has the elements of lower ranks. can_combine(op, type) must hold, and both
// arrays are aligned for the type. An operation that the program defines changes `with`, too.
GPUHEAP_COLD inline void combine(operation op, datatype type, void* into, void* with, simt::size_t count) {
  if (is_users(op)) {
    int number = static_cast<int>(count);
    operation_of(op)->combine(into, with, &number, &type);
    return detail::copy_bytes(into, with, count * static_cast<simt::size_t>(extent_of(type)));
  }
  switch (type) {
    case datatype::int8:
      return detail::combine_elements<signed char>(op, into, with, count);
    case datatype::uint8:
    case datatype::byte:
      return detail::combine_elements<unsigned char>(op, into, with, count);
    case datatype::boolean:
      return detail::combine_elements<bool>(op, into, with, count);
    case datatype::int16:
      return detail::combine_elements<short>(op, into, with, count);
    case datatype::uint16:
      return detail::combine_elements<unsigned short>(op, into, with, count);
    case datatype::int32:
      return detail::combine_elements<int>(op, into, with, count);
    case datatype::uint32:
      return detail::combine_elements<unsigned>(op, into, with, count);
    case datatype::int64:
      return detail::combine_elements<long long>(op, into, with, count);
    case datatype::uint64:
      return detail::combine_elements<unsigned long long>(op, into, with, count);
    case datatype::float32:
      return detail::combine_elements<float>(op, into, with, count);
    case datatype::float64:
      return detail::combine_elements<double>(op, into, with, count);
    case datatype::float_int:
      return detail::combine_elements<located<float>>(op, into, with, count);
    case datatype::double_int:
      return detail::combine_elements<located<double>>(op, into, with, count);
    case datatype::long_int:
      return detail::combine_elements<located<long>>(op, into, with, count);
    case datatype::two_int:
      return detail::combine_elements<located<int>>(op, into, with, count);
    case datatype::short_int:
      return detail::combine_elements<located<short>>(op, into, with, count);
    case datatype::null:
    case datatype::char_type:
    case datatype::packed:
    case datatype::num_predefined:
      return;
  }
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
