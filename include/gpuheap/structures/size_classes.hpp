// Size classes: four per doubling. So in a slot of more than 64 bytes, rounding up wastes at most a fifth.
//
//   class   0   1   2   3 |  4   5   6   7 |   8   9  10  11 | ...
//   bytes  16  32  48  64 | 80  96 112 128 | 160 192 224 256 | ... | 640 KiB 768 KiB 896 KiB 1 MiB (class 59)
//
// Every class size is an odd factor (1, 3, 5 or 7) times a power of two of at least 16, so the slot that contains an offset is computed by
// a shift and one multiplication.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

namespace size_classes {

using simt::uint32_t;
using simt::uint64_t;

// Number of classes.
inline constexpr unsigned count = 60;

// Bytes of a slot of class c, c < count.
[[nodiscard]] GPUHEAP_HD constexpr uint32_t slot_bytes(unsigned c) { return c < 4 ? 16u * (c + 1) : (5u + (c & 3)) << (4 + (c - 4) / 4); }
inline constexpr uint32_t largest_bytes = slot_bytes(count - 1);
static_assert(largest_bytes == uint32_t{1} << 20);

// The smallest class that holds `bytes`, 1 <= bytes <= largest_bytes.
[[nodiscard]] GPUHEAP_HD constexpr unsigned class_of(uint32_t bytes) {
  uint32_t const last = bytes - 1;
  if (last < 64) return last / 16;
  unsigned const e = simt::highest_bit(last);
  return 4 + (e - 6) * 4 + ((last >> (e - 2)) & 3);
}
static_assert(class_of(1) == 0 && class_of(16) == 0 && class_of(17) == 1 && class_of(64) == 3 && class_of(65) == 4 && class_of(80) == 4 &&
              class_of(81) == 5 && class_of(128) == 7 && class_of(129) == 8 && class_of(largest_bytes) == count - 1);
namespace detail {
// Whether for each class the slot size is a multiple of 16, a request of exactly that size gets the class, and a request of one byte more
// gets the next class.
[[nodiscard]] GPUHEAP_HD constexpr bool classes_meet() {
  for (unsigned c = 0; c < count; ++c) {
    if (class_of(slot_bytes(c)) != c || slot_bytes(c) % 16 != 0) return false;
    if (c + 1 < count && class_of(slot_bytes(c) + 1) != c + 1) return false;
  }
  return true;
}
}  // namespace detail
static_assert(detail::classes_meet());

// The smallest class whose slots hold `bytes` and are all aligned to `alignment` (a power of two) if slot 0 is; `count` if there is none.
[[nodiscard]] GPUHEAP_HD constexpr unsigned class_of_aligned(uint32_t bytes, uint32_t alignment) {
  uint32_t const least = bytes > alignment ? bytes : alignment;
  if (least > largest_bytes) return count;
  unsigned c = class_of(least);
  // Ends: one of any four consecutive classes has a power of two as its slot size, and `alignment` divides that size.
  while (c < count && slot_bytes(c) % alignment != 0) ++c;
  return c;
}
static_assert(class_of_aligned(1, 16) == 0 && class_of_aligned(33, 32) == 3 && class_of_aligned(100, 128) == 7 &&
              class_of_aligned(1, 1u << 20) == 59);

// slot_bytes(c) = odd_factor(c) * 2^shift(c); odd_factor is 1, 3, 5 or 7.
[[nodiscard]] GPUHEAP_HD constexpr unsigned shift(unsigned c) { return simt::lowest_bit(slot_bytes(c)); }
[[nodiscard]] GPUHEAP_HD constexpr unsigned odd_factor(unsigned c) { return slot_bytes(c) >> shift(c); }
// x / odd if odd = 1, 3, 5 or 7 divides x; more than 2^29 if it does not, for x < 2^27. Multiplies by the inverse of `odd` modulo 2^32,
// which selections without branches choose.
[[nodiscard]] GPUHEAP_HD constexpr uint32_t exact_quotient(uint32_t x, unsigned odd) {
  uint32_t const of_1_or_3 = (odd & 2) == 0 ? 1 : 0xaaaaaaab, of_5_or_7 = (odd & 2) == 0 ? 0xcccccccd : 0xb6db6db7;
  return x * ((odd & 4) == 0 ? of_1_or_3 : of_5_or_7);
}
namespace detail {
[[nodiscard]] GPUHEAP_HD constexpr bool every_factor_divides() {
  for (unsigned odd = 1; odd < 8; odd += 2) {
    for (uint32_t x = 0; x < 4096; ++x) {
      uint32_t const large = x + (uint32_t{1} << 27) - 4096;
      if (x % odd == 0 ? exact_quotient(x, odd) != x / odd : exact_quotient(x, odd) <= uint32_t{1} << 29) return false;
      if (large % odd == 0 ? exact_quotient(large, odd) != large / odd : exact_quotient(large, odd) <= uint32_t{1} << 29) return false;
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::every_factor_divides());
static_assert(shift(0) == 4 && odd_factor(0) == 1 && shift(2) == 4 && odd_factor(2) == 3 && shift(6) == 4 && odd_factor(6) == 7 &&
              shift(59) == 20);

// offset / slot_bytes(c), offset < 2^31. With slot_bytes(c) = m * 2^shift, m in 1..8, and x = offset >> shift < 2^27, the result is x / m =
// x * M >> 32 for M = ceil(2^32 / m). That is exact, because x * (M * m - 2^32) < 2^32.
[[nodiscard]] GPUHEAP_HD constexpr uint32_t slot_of(unsigned c, uint32_t offset) {
  unsigned const quarter = c < 4 ? c : 4 + (c & 3);  // slot_bytes = (quarter + 1) * 2^shift
  unsigned const shift = c < 4 ? 4 : 4 + (c - 4) / 4;
  // M, chosen by the bits of `quarter` = m - 1 with selections, without branches. For m = 1, M = 2^32 does not fit: 2^31 replaces it, and x
  // is doubled.
  uint32_t const up_to_4 = (quarter & 2) == 0 ? 0x80000000 : (quarter & 1) == 0 ? 0x55555556 : 0x40000000;
  uint32_t const from_5 = (quarter & 2) == 0   ? ((quarter & 1) == 0 ? 0x33333334 : 0x2aaaaaab)
                          : (quarter & 1) == 0 ? 0x24924925
                                               : 0x20000000;
  uint32_t const magic = (quarter & 4) == 0 ? up_to_4 : from_5;
  uint64_t const x = offset >> (quarter == 0 ? shift - 1 : shift);
  return static_cast<uint32_t>((x * magic) >> 32);
}
namespace detail {
[[nodiscard]] GPUHEAP_HD constexpr bool divides(unsigned c, uint32_t slot) {
  return slot_of(c, slot * slot_bytes(c)) == slot && slot_of(c, slot * slot_bytes(c) + slot_bytes(c) - 1) == slot;
}
// Checks slots 0 and 1, one in the middle, and the last one of a span of 2^30 bytes, for each class.
[[nodiscard]] GPUHEAP_HD constexpr bool every_class_divides() {
  for (unsigned c = 0; c < count; ++c) {
    uint32_t const last = (uint32_t{1} << 30) / slot_bytes(c) - 1;
    if (!divides(c, 0) || !divides(c, 1) || !divides(c, last / 2) || !divides(c, last)) return false;
  }
  return true;
}
}  // namespace detail
static_assert(detail::every_class_divides());

}  // namespace size_classes

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
