// The type traits and functions of the standard library that the project uses, for all compilers. NVRTC has no standard headers, and
// libcu++'s headers add seconds to the compilation of a program. The definitions here rest on built-ins of the compilers, so including this
// file takes next to no time. The names are those of the standard.
#pragma once

#include <gpuheap/simt/config.hpp>

#if GPUHEAP_HAS_HOST
#include <new>  // placement new
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
struct remove_cv {
  using type = T;
};
template <class T>
struct remove_cv<T const> {
  using type = T;
};
template <class T>
struct remove_cv<T volatile> {
  using type = T;
};
template <class T>
struct remove_cv<T const volatile> {
  using type = T;
};

template <bool Condition, class Yes, class No>
struct conditional {
  using type = Yes;
};
template <class Yes, class No>
struct conditional<false, Yes, No> {
  using type = No;
};

template <class T>
struct type_identity {
  using type = T;
};

template <class T>
inline constexpr bool is_pointer = false;
template <class T>
inline constexpr bool is_pointer<T*> = true;

template <class T>
inline constexpr bool is_array = false;
template <class T>
inline constexpr bool is_array<T[]> = true;
template <class T, decltype(sizeof 0) Count>
inline constexpr bool is_array<T[Count]> = true;

template <class T, class... Others>
inline constexpr bool is_one_of = (is_same<T, Others> || ...);
}  // namespace detail

// T without a reference.
template <class T>
using remove_reference_t = typename detail::remove_reference<T>::type;
// T without a reference, const and volatile.
template <class T>
using remove_cvref_t = typename detail::remove_cv<remove_reference_t<T>>::type;
// The type Yes if Condition is true, otherwise the type No.
template <bool Condition, class Yes, class No>
using conditional_t = typename detail::conditional<Condition, Yes, No>::type;
// The type T itself. The compiler does not deduce T from a parameter of this type.
template <class T>
using type_identity_t = typename detail::type_identity<T>::type;

// Whether A and B are the same type.
template <class A, class B>
inline constexpr bool is_same_v = detail::is_same<A, B>;
// Whether T is a pointer to an object or to a function. A pointer that is itself const or volatile does not count.
template <class T>
inline constexpr bool is_pointer_v = detail::is_pointer<T>;
// Whether T is an array.
template <class T>
inline constexpr bool is_array_v = detail::is_array<T>;
// Whether T is Base or derived from it.
template <class Base, class T>
inline constexpr bool is_base_of_v = __is_base_of(Base, T);
// Whether copying the bytes of a T copies the T.
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
// Whether T(args...) is well-formed.
template <class T, class... Args>
inline constexpr bool is_constructible_v = __is_constructible(T, Args...);
// Whether T's destructor does nothing.
template <class T>
#if defined(__clang__)
inline constexpr bool is_trivially_destructible_v = __is_trivially_destructible(T);
#else
inline constexpr bool is_trivially_destructible_v = __has_trivial_destructor(T);
#endif

// The concept std::same_as.
template <class A, class B>
concept same_as = detail::is_same<A, B> && detail::is_same<B, A>;
// The concept std::convertible_to.
template <class From, class To>
concept convertible_to = requires(From (&make)(), void (&take)(To)) {
  take(make());
  static_cast<To>(make());
};
// The concept std::integral.
template <class T>
concept integral = detail::is_one_of < typename detail::remove_cv<T>::type,
bool, char, signed char, unsigned char, wchar_t, char8_t, char16_t, char32_t, short, unsigned short, int, unsigned, long, unsigned long,
    long long, unsigned long long > ;

// The bytes of `from`, as an object of type To, which has the same size.
template <class To, class From>
requires(sizeof(To) == sizeof(From) && is_trivially_copyable_v<To> && is_trivially_copyable_v<From>)  //
    [[nodiscard]] GPUHEAP_HD constexpr To bit_cast(From const& from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
