// The simulator's only source of chance: a small generator that is a function of its seed on every platform.
#pragma once

#include <bit>
#include <cstdint>

namespace gpuheap::simulator {

// A bijection of 64 bits in which each input bit affects all output bits (the finaliser of splitmix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// xoroshiro128+ (Blackman, Vigna).
class random_source {
 public:
  explicit random_source(std::uint64_t seed = 0) : a_{mix(seed)}, b_{mix(seed ^ 0x5851f42d4c957f2d) | 1} {}

  [[nodiscard]] std::uint64_t next() {
    std::uint64_t const result = a_ + b_;
    std::uint64_t const b = b_ ^ a_;
    a_ = std::rotl(a_, 24) ^ b ^ (b << 16);
    b_ = std::rotl(b, 37);
    return result;
  }
  // Uniform in 0..bound-1, bound > 0; the bias is below bound / 2^32.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32) * bound >> 32); }
  // True once in `n` calls on average; never for n == 0.
  [[nodiscard]] bool one_in(std::uint32_t n) { return n != 0 && below(n) == 0; }

 private:
  std::uint64_t a_, b_;
};

}  // namespace gpuheap::simulator
