// The order in which a search for a free slot visits a table: a first place that differs from request to request, and further places if
// that one is taken. This is the hashing of A. V. Adinetz, D. Pleiter, "Halloc: a High-Throughput Dynamic Memory Allocator for GPGPU
// Architectures", GTC 2014.
//
//   first place   tickets go up by one per request. `together` consecutive tickets get neighbouring slots, so that the lanes of a warp
//                 share words. The next group of tickets begins 11 * `together` slots further. With n slots, n consecutive tickets get n
//                 different places if n is a multiple of `together`, but not of 11
//   i-th place    i * (1 + (64 * i) % step) slots further, with step = (n/64 + n/256) | 1. The distance is quadratic at first, so that two
//                 searches that meet at a place part again. In the paper the step is a smaller prime from a table, and the 1 is missing,
//                 so that a search in a small table stays at its place
// The places need not cover the table. So after some tries a caller searches in another way.
#pragma once

#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Arithmetic without state, for host and device. `slots`: 1..2^24.
struct hash_probe {
  unsigned slots = 1;

  // The first place for a ticket. `together`: a power of two.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned first(simt::uint32_t ticket, unsigned together) const {
    simt::uint32_t const in_group = ticket & (together - 1);
    return ((ticket - in_group) * 11u + in_group) % slots;
  }
  // The i-th place after the first one. i: below 256.
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
