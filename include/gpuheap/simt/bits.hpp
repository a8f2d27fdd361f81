// Bit counting, rounding, and a product that is rounded alone. Host and device; no state.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// The number of set bits.
[[nodiscard]] GPUHEAP_HD constexpr unsigned popcount(uint64_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return static_cast<unsigned>(__popcll(x));
  unsigned count = 0;
  // NVRTC has no built-in population count for constant expressions.
  for (; x != 0; x &= x - 1) ++count;
  return count;
#else
  return static_cast<unsigned>(__builtin_popcountll(x));
#endif
}
[[nodiscard]] GPUHEAP_HD constexpr unsigned popcount(uint32_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return static_cast<unsigned>(__popc(x));
#endif
  return popcount(uint64_t{x});
}

// Position of the lowest set bit. The argument must not be 0.
[[nodiscard]] GPUHEAP_HD constexpr unsigned lowest_bit(uint64_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return static_cast<unsigned>(__clzll(static_cast<long long>(__brevll(x))));
  return popcount((x & (0 - x)) - 1);
#else
  return static_cast<unsigned>(__builtin_ctzll(x));
#endif
}
[[nodiscard]] GPUHEAP_HD constexpr unsigned lowest_bit(uint32_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return static_cast<unsigned>(__clz(static_cast<int>(__brev(x))));
#endif
  return lowest_bit(uint64_t{x});
}

// Position of the highest set bit, i.e. floor(log2 x). The argument must not be 0.
[[nodiscard]] GPUHEAP_HD constexpr unsigned highest_bit(uint64_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return 63u - static_cast<unsigned>(__clzll(static_cast<long long>(x)));
  unsigned at = 63;
  // Ends: at the highest bit that is set.
  while ((x >> at & 1) == 0) --at;
  return at;
#else
  return 63u - static_cast<unsigned>(__builtin_clzll(x));
#endif
}
[[nodiscard]] GPUHEAP_HD constexpr unsigned highest_bit(uint32_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return 31u - static_cast<unsigned>(__clz(static_cast<int>(x)));
#endif
  return highest_bit(uint64_t{x});
}

// x rotated by n (0..63) places: rotate_up() to the left, rotate_down() to the right.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t rotate_up(uint64_t x, unsigned n) { return x << (n & 63) | x >> ((0 - n) & 63); }
[[nodiscard]] GPUHEAP_HD constexpr uint64_t rotate_down(uint64_t x, unsigned n) { return x >> (n & 63) | x << ((0 - n) & 63); }
static_assert(rotate_up(1, 0) == 1 && rotate_up(uint64_t{1} << 63, 1) == 1 && rotate_down(1, 1) == uint64_t{1} << 63 &&
              rotate_down(6, 1) == 3);

// ceil(log2 x); 0 for x <= 1.
[[nodiscard]] GPUHEAP_HD constexpr unsigned ceil_log2(uint64_t x) { return x <= 1 ? 0u : highest_bit(x - 1) + 1; }
static_assert(ceil_log2(0) == 0 && ceil_log2(1) == 0 && ceil_log2(2) == 1 && ceil_log2(3) == 2 && ceil_log2(4) == 2 && ceil_log2(5) == 3);

// The n lowest bits set, n in 0..64.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t low_bits(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }
static_assert(low_bits(0) == 0 && low_bits(1) == 1 && low_bits(63) == ~uint64_t{0} >> 1 && low_bits(64) == ~uint64_t{0});

// Position of the n-th (from 0) set bit of x. n < popcount(x).
[[nodiscard]] GPUHEAP_HD constexpr unsigned nth_set_bit(uint32_t x, unsigned n) {
  unsigned at = 0;
  for (unsigned width = 16; width != 0; width /= 2) {
    unsigned const below = popcount(x & ((uint32_t{1} << width) - 1));
    if (n < below) continue;
    n -= below;
    x >>= width;
    at += width;
  }
  return at;
}
[[nodiscard]] GPUHEAP_HD constexpr unsigned nth_set_bit(uint64_t x, unsigned n) {
  unsigned const below = popcount(static_cast<uint32_t>(x));
  bool const high = n >= below;
  return nth_set_bit(static_cast<uint32_t>(high ? x >> 32 : x), high ? n - below : n) + (high ? 32 : 0);
}
static_assert(nth_set_bit(uint64_t{0b1011}, 0) == 0 && nth_set_bit(uint64_t{0b1011}, 2) == 3 && nth_set_bit(~uint64_t{0}, 63) == 63 &&
              nth_set_bit(uint64_t{1} << 63 | 1, 1) == 63 && nth_set_bit(0x80000001u, 1) == 31 && nth_set_bit(~0u, 16) == 16);

// `x` rounded up to a multiple of `unit`, a power of two. The result wraps if it is more than 2^64 - 1.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t round_up_pow2(uint64_t x, uint64_t unit) { return (x + unit - 1) & ~(unit - 1); }
static_assert(round_up_pow2(0, 16) == 0 && round_up_pow2(1, 16) == 16 && round_up_pow2(15, 16) == 16 && round_up_pow2(16, 16) == 16 &&
              round_up_pow2(17, 16) == 32);
// As round_up_pow2(), but returns `x` itself where the rounded value is more than 2^64 - 1.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t round_up_or_same(uint64_t x, uint64_t unit) {
  uint64_t const rounded = round_up_pow2(x, unit);
  return rounded < x ? x : rounded;
}
static_assert(round_up_or_same(17, 16) == 32 && round_up_or_same(~uint64_t{0}, 16) == ~uint64_t{0} &&
              round_up_or_same(~uint64_t{0} - 15, 16) == ~uint64_t{0} - 15 && round_up_or_same(~uint64_t{0} - 14, 16) == ~uint64_t{0} - 14);
// x / unit, rounded up. x + unit - 1 must be less than 2^64.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t ceil_div(uint64_t x, uint64_t unit) { return (x + unit - 1) / unit; }
static_assert(ceil_div(0, 8) == 0 && ceil_div(1, 8) == 1 && ceil_div(8, 8) == 1 && ceil_div(9, 8) == 2);

// a * b, rounded to a float. nvcc fuses a product that is written with `*` into a later addition in some kernels and not in others, so that
// two kernels may compute two results from one source.
[[nodiscard]] GPUHEAP_HD inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
