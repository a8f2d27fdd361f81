// The size of a heap: in bytes, as a share of the free memory, or from the environment. Host code only.
#pragma once

#include <gpuheap/memory/literals.hpp>
#include <gpuheap/memory/resource.hpp>
#include <gpuheap/simt/error.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdlib>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace memory {
// Text for messages: "200.0 GiB", "512 B".
[[nodiscard]] inline std::string format_bytes(simt::size_t bytes) {
  static constexpr char const* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return text_of("%zu B", bytes);
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return text_of("%.1f %s", value, units[unit]);
}
}  // namespace memory

// @brief The size of a heap: bytes, a share of the free memory, or a size from the environment. A share becomes a number of bytes when the
// heap is made.
class heap_size {
 public:
  // @param bytes the size of the heap, metadata included
  constexpr heap_size(simt::size_t bytes) : bytes_{bytes} {}  // NOLINT(google-explicit-constructor): heap{8_GiB}

  // @param fraction above 0 and at most 1: the share of the memory that the source has free when the heap is made
  // @throws gpuheap::error for any other number
  [[nodiscard]] static heap_size fraction_of_free(double fraction) {
    if (!(fraction > 0 && fraction <= 1)) {
      throw plain_error(text_of("gpuheap: fraction_of_free takes a number above 0 and at most 1, not %f", fraction));
    }
    heap_size size{0};
    size.fraction_ = fraction;
    return size;
  }

  // @brief The size in the environment variable GPUHEAP_BYTES: "8589934592", "8GiB", "1.5 GiB", "512M", or "40%" of the free memory.
  // All units are powers of 1024, in capital or small letters.
  // Without the variable: default_bytes, or half of the free memory if that is less.
  // @throws gpuheap::error if the text is none of these
  [[nodiscard]] static heap_size from_environment() {
    if (char const* text = std::getenv("GPUHEAP_BYTES"); text != nullptr && *text != '\0') return parse(text);
    heap_size size{default_bytes};
    size.at_most_half_ = true;
    return size;
  }
  static constexpr simt::size_t default_bytes = 1_GiB;

  // @param from the source of the heap's memory
  // @return the size in bytes of a heap in that memory
  // @throws gpuheap::error for a share of a source that does not know its free memory
  [[nodiscard]] simt::size_t resolve(memory::resource const& from) const {
    if (fraction_ == 0 && !at_most_half_) return bytes_;
    auto const there = from.query();
    if (at_most_half_) return there ? (bytes_ < there->free_bytes / 2 ? bytes_ : there->free_bytes / 2) : bytes_;
    if (!there)
      throw plain_error(text_of("gpuheap: %s does not say how much of it is free: give the heap's size in bytes", from.name().c_str()));
    return static_cast<simt::size_t>(fraction_ * static_cast<double>(there->free_bytes));
  }

 private:
  // Reads a size. It avoids the C library's conversions, because their decimal point depends on the program's locale.
  [[nodiscard]] static heap_size parse(std::string const& text) {
    auto const refuse = [&] {
      return plain_error(
          text_of("gpuheap: GPUHEAP_BYTES is \"%s\": a size such as 8589934592, 512MiB, 1.5GiB or 40%% (of the free memory) is expected",
                  text.c_str()));
    };
    auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
    char const* at = text.c_str();
    double value = 0, place = 1;
    bool has_digits = false;
    for (; is_digit(*at); ++at, has_digits = true) value = value * 10 + (*at - '0');
    if (*at == '.') {
      for (++at; is_digit(*at); ++at, has_digits = true) value += (*at - '0') * (place /= 10);
    }
    if (!has_digits || !(value > 0)) throw refuse();
    // Ends: at the end of the blanks.
    while (*at == ' ') ++at;
    std::string unit{at};
    for (char& c : unit) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    if (unit == "%") {
      if (value > 100) throw refuse();
      return fraction_of_free(value / 100);
    }
    int shift = -1;
    if (unit.empty() || unit == "B") shift = 0;
    for (int power = 1; power <= 4; ++power) {
      std::string const letter(1, "KMGT"[power - 1]);
      if (unit == letter || unit == letter + "B" || unit == letter + "I" || unit == letter + "IB") shift = 10 * power;
    }
    if (shift < 0) throw refuse();
    double const bytes = value * static_cast<double>(simt::uint64_t{1} << shift);
    constexpr double too_many = static_cast<double>(simt::uint64_t{1} << 63);
    if (bytes < 1 || bytes >= too_many) throw refuse();
    return heap_size{static_cast<simt::size_t>(bytes)};
  }

  simt::size_t bytes_;
  double fraction_ = 0;  // 0: the size is bytes_
  bool at_most_half_ = false;
};

// @brief A share of the free memory, as in heap{fraction_of_free(0.5)}.
[[nodiscard]] inline heap_size fraction_of_free(double fraction) { return heap_size::fraction_of_free(fraction); }

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
#endif
