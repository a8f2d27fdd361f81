// sprintf and snprintf, with the C library's conversions of integers, floating-point numbers, characters, strings and pointers. Device
// code.
#pragma once

#include <gpuheap/mpi/c/numbers.hpp>

#include <cmath>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

namespace detail {
// One argument of a call with a format.
struct argument {
  enum class kind { none, whole, floating, pointer } what = kind::none;
  simt::uint64_t whole = 0;  // an integer, sign-extended if its type is signed
  double floating = 0;
  void const* pointer = nullptr;

  argument() = default;
  template <class T>
  GPUHEAP_FN explicit argument(T value) {
    if constexpr (simt::same_as<T, float> || simt::same_as<T, double>) {
      what = kind::floating;
      floating = static_cast<double>(value);
    } else if constexpr (requires { static_cast<void const*>(value); }) {
      what = kind::pointer;
      pointer = static_cast<void const*>(value);
    } else {
      what = kind::whole;
      whole = static_cast<simt::uint64_t>(static_cast<long long>(value));
    }
  }
};

// A destination for characters. It stores those that fit, and counts all.
struct text_sink {
  char* to;
  simt::size_t room;  // the size of the destination, the final zero included
  simt::size_t length = 0;

  GPUHEAP_FN void put(char c) {
    if (length + 1 < room) to[length] = c;
    ++length;
  }
  GPUHEAP_FN void fill(char c, int times) {
    for (; times > 0; --times) put(c);
  }
  GPUHEAP_FN void end() {
    if (room != 0) to[length < room ? length : room - 1] = '\0';
  }
};

// A conversion specification: the parts between the % and its letter, and the letter.
struct conversion {
  bool left = false, zeros = false, plus = false, space = false, other_form = false;
  int width = 0, precision = -1;
  int longs = 0;  // the length modifier; l, z, t, j or L: 1, ll: 2, h: -1, hh: -2
  char letter = '\0';
};

// Writes `prefix` and `length` digits, padded to the conversion's width with blanks or, if `zeros`, with zeros.
GPUHEAP_COLD inline void put_number(text_sink& out, conversion const& c, char const* prefix, char const* digits, int length, bool zeros) {
  int const before = static_cast<int>(strlen(prefix)), blank = c.width - before - length;
  if (!c.left && !zeros) out.fill(' ', blank);
  for (; *prefix != '\0'; ++prefix) out.put(*prefix);
  if (!c.left && zeros) out.fill('0', blank);
  for (int i = 0; i < length; ++i) out.put(digits[i]);
  if (c.left) out.fill(' ', blank);
}

// Writes the digits of `value` so that they end at `end`. Returns their beginning.
[[nodiscard]] GPUHEAP_FN inline char* digits_before(char* end, simt::uint64_t value, unsigned base, bool capital) {
  for (; value != 0; value /= base) {
    auto const digit = static_cast<unsigned>(value % base);
    *--end = static_cast<char>(digit < 10 ? '0' + digit : (capital ? 'A' : 'a') + digit - 10);
  }
  return end;
}

GPUHEAP_COLD inline void put_whole(text_sink& out, conversion const& c, argument const& given) {
  bool const has_sign = c.letter == 'd' || c.letter == 'i';
  simt::uint64_t value = given.what == argument::kind::pointer ? reinterpret_cast<simt::uintptr_t>(given.pointer) : given.whole;
  if (c.letter != 'p' && c.longs <= 0) {
    // The value is truncated to the integer type that the length modifier names.
    unsigned const unused = c.longs == -2 ? 56 : c.longs == -1 ? 48 : 32;
    value = has_sign ? static_cast<simt::uint64_t>(static_cast<long long>(value << unused) >> unused) : value << unused >> unused;
  }
  bool const negative = has_sign && static_cast<long long>(value) < 0;
  if (negative) value = 0 - value;
  unsigned const base = c.letter == 'x' || c.letter == 'X' || c.letter == 'p' ? 16 : c.letter == 'o' ? 8 : 10;
  constexpr int most = 72;
  char digits[most];
  char* begin = digits_before(digits + most, value, base, c.letter == 'X');
  int const wanted = c.precision < 0 ? 1 : c.precision < most - 2 ? c.precision : most - 2;
  // Ends: when there are `wanted` digits.
  while (digits + most - begin < wanted) *--begin = '0';
  if (c.letter == 'o' && c.other_form && (begin == digits + most || *begin != '0')) *--begin = '0';
  char const* prefix = negative ? "-" : has_sign && c.plus ? "+" : has_sign && c.space ? " " : "";
  if (c.letter == 'p' || (base == 16 && c.other_form && value != 0)) prefix = c.letter == 'X' ? "0X" : "0x";
  put_number(out, c, prefix, begin, static_cast<int>(digits + most - begin), c.zeros && c.precision < 0);
}

// Computes the first `count` decimal digits of `value` > 0, rounded, and the exponent: value = d.ddd x 10^exponent. It computes at most 17
// digits, the last of which may be wrong; further digits are zeros.
GPUHEAP_COLD inline void decimal(double value, int count, char* digits, int& exponent) {
  exponent = static_cast<int>(floor(log10(value)));
  constexpr int most = 17;
  int const have = count < 1 ? 1 : count < most ? count : most;
  simt::uint64_t limit = 1;
  for (int i = 0; i < have; ++i) limit *= 10;
  auto whole = static_cast<simt::uint64_t>(rint(scaled(value, have - 1 - exponent)));
  if (whole >= limit) {
    ++exponent;
    whole = static_cast<simt::uint64_t>(rint(scaled(value, have - 1 - exponent)));
  } else if (whole < limit / 10) {
    --exponent;
    whole = static_cast<simt::uint64_t>(rint(scaled(value, have - 1 - exponent)));
  }
  for (int i = have; i > 0; --i, whole /= 10) digits[i - 1] = static_cast<char>('0' + whole % 10);
  for (int i = have; i < count; ++i) digits[i] = '0';
}

GPUHEAP_COLD inline void put_floating(text_sink& out, conversion c, double value) {
  bool const capital = isupper(c.letter);
  char const letter = static_cast<char>(tolower(c.letter));
  bool const negative = __builtin_signbit(value) != 0;
  char const* const prefix = negative ? "-" : c.plus ? "+" : c.space ? " " : "";
  if (negative) value = -value;
  if (value != value) return put_number(out, c, prefix, capital ? "NAN" : "nan", 3, false);
  if (value > 1.7976931348623157e308) return put_number(out, c, prefix, capital ? "INF" : "inf", 3, false);
  constexpr int most = 400;
  char text[most];
  char digits[most];
  int length = 0, exponent = 0;
  int precision = c.precision < 0 ? 6 : c.precision < 60 ? c.precision : 60;
  bool short_form = letter == 'g', by_exponent = letter == 'e';
  if (short_form) {
    if (precision == 0) precision = 1;
    if (value != 0) decimal(value, precision, digits, exponent);
    by_exponent = exponent < -4 || exponent >= precision;
    precision = by_exponent ? precision - 1 : precision - 1 - exponent;
  }
  exponent = 0;
  if (value != 0) {
    if (!by_exponent) {
      // If rounding adds a digit before the point, there is one digit more than the precision asks for.
      int const before = value < 1 ? 0 : static_cast<int>(floor(log10(value)));
      decimal(value, precision + before + 1 < 1 ? 1 : precision + before + 1, digits, exponent);
    } else {
      decimal(value, precision + 1, digits, exponent);
    }
  }
  auto const digit = [&](int place) -> char {  // the digit with the weight 10^-place
    int const at = by_exponent ? place : place + exponent;
    int const have = by_exponent ? precision + 1 : precision + (exponent > 0 ? exponent : 0) + 1;
    return value == 0 || at < 0 || at >= have ? '0' : digits[at];
  };
  if (!by_exponent && value != 0 && exponent < 0) {
    // A value below 1 is rounded to a multiple of its last place.
    auto whole = static_cast<simt::uint64_t>(rint(scaled(value, precision < 18 ? precision : 18)));
    int const places = precision < 18 ? precision : 18;
    for (int i = places; i > 0; --i, whole /= 10) digits[i] = static_cast<char>('0' + whole % 10);
    digits[0] = static_cast<char>('0' + whole);
    for (int i = places + 1; i <= precision; ++i) digits[i] = '0';
    exponent = 0;
  }
  int const first = by_exponent || exponent < 0 ? 0 : -exponent;
  for (int place = first; place <= 0; ++place) text[length++] = digit(place);
  int const point = length;
  if (precision > 0 || c.other_form) text[length++] = '.';
  for (int place = 1; place <= precision; ++place) text[length++] = digit(place);
  if (short_form && !c.other_form && precision > 0) {
    // Ends: at the point.
    while (text[length - 1] == '0') --length;
    if (length - 1 == point) --length;
  }
  if (by_exponent) {
    text[length++] = capital ? 'E' : 'e';
    text[length++] = exponent < 0 ? '-' : '+';
    unsigned const size = static_cast<unsigned>(exponent < 0 ? -exponent : exponent);
    if (size >= 100) text[length++] = static_cast<char>('0' + size / 100);
    text[length++] = static_cast<char>('0' + size / 10 % 10);
    text[length++] = static_cast<char>('0' + size % 10);
  }
  put_number(out, c, prefix, text, length, c.zeros);
}

GPUHEAP_COLD inline void put_text(text_sink& out, conversion const& c, char const* text) {
  if (text == nullptr) text = "(null)";
  simt::size_t const length = strnlen(text, c.precision < 0 ? ~simt::size_t{0} : static_cast<simt::size_t>(c.precision));
  int const blank = c.width - static_cast<int>(length);
  if (!c.left) out.fill(' ', blank);
  for (simt::size_t i = 0; i < length; ++i) out.put(text[i]);
  if (c.left) out.fill(' ', blank);
}

// Reads a conversion specification from the character after the % on. Returns the position of its letter. next_number() gives the value of
// a width or precision that is written as *.
template <class Next>
GPUHEAP_FN char const* read_conversion(char const* at, conversion& c, Next&& next_number) {
  // Ends: at the first character that is not a flag.
  for (;; ++at) {
    if (*at == '-') {
      c.left = true;
    } else if (*at == '0') {
      c.zeros = true;
    } else if (*at == '+') {
      c.plus = true;
    } else if (*at == ' ') {
      c.space = true;
    } else if (*at == '#') {
      c.other_form = true;
    } else {
      break;
    }
  }
  auto const number = [&]() -> int {
    if (*at == '*') {
      ++at;
      return next_number();
    }
    int value = 0;
    for (; isdigit(*at); ++at) value = 10 * value + (*at - '0');
    return value;
  };
  c.width = number();
  if (c.width < 0) {
    c.left = true;
    c.width = -c.width;
  }
  if (*at == '.') {
    ++at;
    c.precision = number();
  }
  for (; *at == 'l' || *at == 'h' || *at == 'z' || *at == 't' || *at == 'j' || *at == 'L'; ++at) {
    c.longs += *at == 'h' ? -1 : 1;
  }
  c.letter = *at;
  return at;
}

// Formats into `out`. Returns the length of the whole text, even if only a part of it fits into `out`.
GPUHEAP_COLD inline int format_text(text_sink& out, char const* format, argument const* values, int count) {
  int next = 0;
  argument const nothing;
  auto const take = [&]() -> argument const& { return next < count ? values[next++] : nothing; };
  for (char const* at = format; *at != '\0'; ++at) {
    if (*at != '%') {
      out.put(*at);
      continue;
    }
    conversion c;
    at = read_conversion(at + 1, c, [&] { return static_cast<int>(take().whole); });
    switch (c.letter) {
      case '%':
        out.put('%');
        break;
      case 'c': {
        char const letter = static_cast<char>(take().whole);
        put_number(out, c, "", &letter, 1, false);
        break;
      }
      case 's':
        put_text(out, c, static_cast<char const*>(take().pointer));
        break;
      case 'e':
      case 'f':
      case 'g':
      case 'E':
      case 'F':
      case 'G':
        put_floating(out, c, take().floating);
        break;
      case '\0':
        --at;
        break;
      default:
        put_whole(out, c, take());
    }
  }
  out.end();
  return static_cast<int>(out.length);
}
}  // namespace detail

// Writes into `to` the text that printf would print, as much as fits into `room` bytes with the final zero. Returns the length of the whole
// text.
template <class... Values>
GPUHEAP_FN int snprintf(char* to, simt::size_t room, char const* format, Values... values) {
  detail::argument const all[sizeof...(Values) + 1] = {detail::argument{values}..., detail::argument{}};
  detail::text_sink out{to, room};
  return detail::format_text(out, format, all, sizeof...(Values));
}
template <class... Values>
GPUHEAP_FN int sprintf(char* to, char const* format, Values... values) {
  return snprintf(to, ~simt::size_t{0} >> 1, format, values...);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
