// Random numbers by position: the n-th number of a sequence can be had anywhere, on the device or the host, without the ones before it.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::bench {

// The finaliser of splitmix64: a bijection of 64-bit words in which every input bit reaches every output bit.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t mix_bits(simt::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class random_sequence {
 public:
  // Sequences of different (seed, stream) do not overlap in practice.
  GPUHEAP_HD constexpr explicit random_sequence(simt::uint64_t seed, simt::uint64_t stream = 0)
      : key_{mix_bits(mix_bits(seed) + 0x9e3779b97f4a7c15u * (stream + 1))} {}

  // The n-th 64 random bits.
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t bits(simt::uint64_t n) const { return mix_bits(key_ + 0x9e3779b97f4a7c15u * (n + 1)); }

  // The n-th number of 0..bound-1. The bias is below bound / 2^32. `bound` > 0.
  [[nodiscard]] GPUHEAP_HD constexpr simt::uint32_t below(simt::uint64_t n, simt::uint32_t bound) const {
    return static_cast<simt::uint32_t>(((bits(n) >> 32) * bound) >> 32);
  }

 private:
  simt::uint64_t key_;
};

}  // namespace gpuheap::bench
