// Seeded random numbers for tests, the same on either side.
#pragma once

#include "pattern.hpp"

namespace test {

class rng {
 public:
  GPUHEAP_HD explicit rng(simt::uint64_t seed) : state_{mix(seed + 0x9e3779b97f4a7c15ull)} {}
  // 0 .. limit - 1.
  GPUHEAP_HD unsigned below(unsigned limit) {
    state_ += 0x9e3779b97f4a7c15ull;
    return static_cast<unsigned>((mix(state_) >> 32) * limit >> 32);
  }

 private:
  simt::uint64_t state_;
};

}  // namespace test
