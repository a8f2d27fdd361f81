// The order in which a search for a free slot visits a table: a first place that differs for every request, and a walk from there if the
// place is taken. The hashing of A. V. Adinetz, D. Pleiter, "Halloc: a High-Throughput Dynamic Memory Allocator for GPGPU Architectures",
// GTC 2014.
//
//   first place   tickets go up by one per request. Groups of `together` consecutive tickets get neighbouring slots, so that the lanes of a
//                 warp share words; the groups are 11 apart. n consecutive tickets, n the number of slots, get n different places if n is
//                 a multiple of `together` and not of 11
//   i-th place    i * (1 + 64 i modulo step) slots further, step = n/64 + n/256: quadratic at first, so that walks that meet part again.
//                 This differs from the paper: its step is a prime below this one, from a table, and there is no 1, so that a walk in a
//                 small table does not move
// A walk need not reach every slot: after some tries a caller searches in another way.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Plain arithmetic, either side. `slots` in 1..2^24.
struct hash_probe {
  unsigned slots = 1;

  // `together`: a power of two.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned first(simt::uint32_t ticket, unsigned together) const {
    simt::uint32_t const in_group = ticket & (together - 1);
    return ((ticket - in_group) * 11u + in_group) % slots;
  }
  // i: below 256.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned at(unsigned first, unsigned i) const {
    unsigned const step = (slots / 64 + slots / 256) | 1;
    return (first + i * (1 + 64 * i % step)) % slots;
  }
};
static_assert(hash_probe{1}.first(77, 4) == 0 && hash_probe{1}.at(0, 31) == 0);
static_assert(hash_probe{1024}.first(0, 1) == 0 && hash_probe{1024}.first(1, 1) == 11 && hash_probe{1024}.first(1, 4) == 1 &&
              hash_probe{1024}.first(4, 4) == 44);
static_assert(hash_probe{8}.at(3, 0) == 3 && hash_probe{8}.at(3, 1) == 4 && hash_probe{262144}.at(0, 2) == 2 * 129);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
