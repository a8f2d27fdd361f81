// Functions of <stdlib.h> that read numbers from strings, sort and search. They do the same as in the C library, but the last bits of a
// floating-point number may differ, and hexadecimal ones are not read. Device code.
#pragma once

#include <gpuheap/mpi/c/text.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

namespace detail {
// The value of a digit or letter; 99 for any other character.
[[nodiscard]] GPUHEAP_FN constexpr unsigned digit_of(char c) {
  if (isdigit(c)) return static_cast<unsigned>(c - '0');
  return isalpha(c) ? static_cast<unsigned>(tolower(c) - 'a') + 10 : 99;
}

struct whole_number {
  simt::uint64_t value;
  bool negative, too_large;
};
// Reads the integer at the beginning of `text`. `*end` becomes the position after it, or `text` if there is none.
[[nodiscard]] GPUHEAP_COLD inline whole_number read_whole(char const* text, char const** end, unsigned base) {
  char const* at = text;
  // Ends: at the end of the text.
  while (isspace(*at)) ++at;
  whole_number n{0, *at == '-', false};
  if (*at == '-' || *at == '+') ++at;
  bool const hexadecimal = *at == '0' && (at[1] == 'x' || at[1] == 'X') && digit_of(at[2]) < 16;
  if ((base == 0 || base == 16) && hexadecimal) {
    at += 2;
    base = 16;
  } else if (base == 0) {
    base = *at == '0' ? 8 : 10;
  }
  char const* const first = at;
  for (; digit_of(*at) < base; ++at) {
    unsigned const digit = digit_of(*at);
    n.too_large = n.too_large || n.value > (~simt::uint64_t{0} - digit) / base;
    n.value = n.value * base + digit;
  }
  *end = at == first ? text : at;
  return n;
}
// value * 10^tens. Each step of up to 22 powers rounds once: 10^22 is the largest power of ten that a double holds exactly.
[[nodiscard]] GPUHEAP_FN inline double scaled(double value, int tens) {
  constexpr double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  // Ends: each pass lowers `tens` by 22.
  for (; tens > 22; tens -= 22) value *= 1e22;
  // Ends: each pass raises `tens` by 22.
  for (; tens < -22; tens += 22) value /= 1e22;
  return tens >= 0 ? value * exact[tens] : value / exact[-tens];
}
// Reads the floating-point number at the beginning of `text`. `*end` becomes the position after it, or `text` if there is none.
[[nodiscard]] GPUHEAP_COLD inline double read_floating(char const* text, char const** end) {
  char const* at = text;
  // Ends: at the end of the text.
  while (isspace(*at)) ++at;
  bool const negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  double value = 0;
  if (strncasecmp(at, "inf", 3) == 0 || strncasecmp(at, "nan", 3) == 0) {
    value = tolower(*at) == 'i' ? __builtin_huge_val() : __builtin_nan("");
    at += strncasecmp(at, "infinity", 8) == 0 ? 8 : 3;
    *end = at;
    return negative ? -value : value;
  }
  simt::uint64_t digits = 0;
  int tens = 0;
  bool any = false, after_point = false;
  for (; isdigit(*at) || (*at == '.' && !after_point); ++at) {
    if (*at == '.') {
      after_point = true;
      continue;
    }
    any = true;
    bool const counts = digits < 100000000000000000u;  // a double holds no more than 17 significant digits
    if (counts) digits = 10 * digits + static_cast<unsigned>(*at - '0');
    tens += (counts ? 0 : 1) - (after_point ? 1 : 0);
  }
  if (!any) {
    *end = text;
    return 0;
  }
  if (*at == 'e' || *at == 'E') {
    char const* exponent = at + 1;
    bool const down = *exponent == '-';
    if (*exponent == '-' || *exponent == '+') ++exponent;
    int more = 0;
    if (isdigit(*exponent)) {
      for (; isdigit(*exponent); ++exponent) more = more < 10000 ? 10 * more + (*exponent - '0') : more;
      tens += down ? -more : more;
      at = exponent;
    }
  }
  *end = at;
  tens = tens < -400 ? -400 : tens > 400 ? 400 : tens;
  value = digits == 0 ? 0 : scaled(static_cast<double>(digits), tens);
  return negative ? -value : value;
}
GPUHEAP_FN inline void end_at(char** to, char const* end) {
  if (to != nullptr) *to = const_cast<char*>(end);
}
}  // namespace detail

// Reads the number at the beginning of `text`; 0 if there is none. `*end` becomes the position after it, or `text` if there is none. If an
// integer is out of range, the result is the largest or the smallest one, and errno becomes ERANGE.
GPUHEAP_FN inline long long strtoll(char const* text, char** end, int base) {
  char const* rest = text;
  auto const n = detail::read_whole(text, &rest, static_cast<unsigned>(base));
  detail::end_at(end, rest);
  constexpr simt::uint64_t half = simt::uint64_t{1} << 63;
  if (n.too_large || n.value > half - (n.negative ? 0 : 1)) {
    error_number() = ERANGE;
    return static_cast<long long>(n.negative ? half : half - 1);
  }
  return static_cast<long long>(n.negative ? 0 - n.value : n.value);
}
GPUHEAP_FN inline unsigned long long strtoull(char const* text, char** end, int base) {
  char const* rest = text;
  auto const n = detail::read_whole(text, &rest, static_cast<unsigned>(base));
  detail::end_at(end, rest);
  if (n.too_large) {
    error_number() = ERANGE;
    return ~0ull;
  }
  return n.negative ? 0 - n.value : n.value;
}
GPUHEAP_FN inline long strtol(char const* text, char** end, int base) { return static_cast<long>(strtoll(text, end, base)); }
GPUHEAP_FN inline unsigned long strtoul(char const* text, char** end, int base) {
  return static_cast<unsigned long>(strtoull(text, end, base));
}
GPUHEAP_FN inline double strtod(char const* text, char** end) {
  char const* rest = text;
  double const value = detail::read_floating(text, &rest);
  detail::end_at(end, rest);
  return value;
}
GPUHEAP_FN inline float strtof(char const* text, char** end) { return static_cast<float>(strtod(text, end)); }

// The number at the beginning of `text`, 0 if there is none.
[[nodiscard]] GPUHEAP_FN inline long atol(char const* text) { return strtol(text, nullptr, 10); }
[[nodiscard]] GPUHEAP_FN inline long long atoll(char const* text) { return strtoll(text, nullptr, 10); }
[[nodiscard]] GPUHEAP_FN inline int atoi(char const* text) { return static_cast<int>(atol(text)); }
[[nodiscard]] GPUHEAP_FN inline double atof(char const* text) { return strtod(text, nullptr); }

// ---- sorting and searching

namespace detail {
GPUHEAP_FN inline void swap_bytes(char* a, char* b, simt::size_t bytes) {
  for (simt::size_t i = 0; i < bytes; ++i) {
    char const kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}
using order = int (*)(void const*, void const*);
// Restores the order of the binary heap below element `at`: the largest element of that part moves up to `at`.
GPUHEAP_FN inline void sift_down(char* all, simt::size_t at, simt::size_t count, simt::size_t bytes, order compare) {
  // Ends: each pass goes one level down.
  while (2 * at + 1 < count) {
    simt::size_t child = 2 * at + 1;
    if (child + 1 < count && compare(all + child * bytes, all + (child + 1) * bytes) < 0) ++child;
    if (compare(all + at * bytes, all + child * bytes) >= 0) return;
    swap_bytes(all + at * bytes, all + child * bytes, bytes);
    at = child;
  }
}
}  // namespace detail

// Sorts by merging, which keeps the order of equal elements, as in the GNU C library. If the heap has no memory for a copy, sorts in place
// by heapsort, which does not keep that order.
GPUHEAP_COLD inline void qsort(void* first, simt::size_t count, simt::size_t bytes, int (*compare)(void const*, void const*)) {
  auto* all = static_cast<char*>(first);
  if (count < 2) return;
  auto* const room = static_cast<char*>(coalesced::malloc(count * bytes));
  if (room == nullptr) {
    for (simt::size_t i = count / 2; i > 0; --i) detail::sift_down(all, i - 1, count, bytes, compare);
    for (simt::size_t last = count - 1; last > 0; --last) {
      detail::swap_bytes(all, all + last * bytes, bytes);
      detail::sift_down(all, 0, last, bytes, compare);
    }
    return;
  }
  char* from = all;
  char* to = room;
  for (simt::size_t part = 1; part < count; part *= 2) {
    for (simt::size_t begin = 0; begin < count; begin += 2 * part) {
      simt::size_t const middle = begin + part < count ? begin + part : count;
      simt::size_t const end = middle + part < count ? middle + part : count;
      simt::size_t left = begin, right = middle;
      for (simt::size_t i = begin; i < end; ++i) {
        bool const take_left = left < middle && (right == end || compare(from + left * bytes, from + right * bytes) <= 0);
        memmove(to + i * bytes, from + (take_left ? left++ : right++) * bytes, bytes);
      }
    }
    char* const sorted = to;
    to = from;
    from = sorted;
  }
  if (from != all) memmove(all, from, count * bytes);
  coalesced::free(room);
}
// Finds an element that equals `wanted` in a sorted array. nullptr: there is none.
[[nodiscard]] GPUHEAP_COLD inline void* bsearch(void const* wanted, void const* first, simt::size_t count, simt::size_t bytes,
                                                int (*compare)(void const*, void const*)) {
  auto const* const all = static_cast<char const*>(first);
  simt::size_t begin = 0, end = count;
  // Ends: each pass halves the range.
  while (begin < end) {
    simt::size_t const middle = begin + (end - begin) / 2;
    int const is = compare(wanted, all + middle * bytes);
    if (is == 0) return const_cast<char*>(all + middle * bytes);
    (is < 0 ? end : begin) = is < 0 ? middle : middle + 1;
  }
  return nullptr;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
