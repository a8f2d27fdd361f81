// One cell for each thing that a structure hands out. The thread that was given the thing claims its cell, and releases the cell before it
// gives the thing back.
//
// Two owners at once are counted. The writes are plain, so the weak mode also reports an owner whose claim is not ordered after the
// release of the one before. Taking a thing over does not empty the SM's L1 (see simt::consume), so the cells are read past it.
#pragma once

#include "../support/device_array.hpp"

#include <gpuheap/simt/atomic.hpp>

#include <string>
#include <vector>

namespace structures_test {

namespace simt = gpuheap::simt;

GPUHEAP_FN inline void count(unsigned* counter) { simt::atomic_ref<unsigned>{*counter}.fetch_add(1, simt::relaxed); }

struct owned_cells {
  unsigned* cells;  // 0: nobody's; otherwise the owner + 1
  unsigned* wrong;

  [[nodiscard]] GPUHEAP_FN unsigned owner_of(unsigned thing) const { return simt::atomic_ref<unsigned>{cells[thing]}.load(simt::relaxed); }
  GPUHEAP_FN void claim(unsigned thing, unsigned owner) const {
    if (owner_of(thing) != 0) count(wrong);
    simt::plain_write(cells[thing], owner + 1);
  }
  GPUHEAP_FN void release(unsigned thing, unsigned owner) const {
    if (owner_of(thing) != owner + 1) count(wrong);
    simt::plain_write(cells[thing], 0u);
  }
  // The things first + k for the bits k of `which`.
  GPUHEAP_FN void claim_bits(unsigned first, simt::uint64_t which, unsigned owner) const {
    for (; which != 0; which &= which - 1) claim(first + simt::lowest_bit(which), owner);
  }
  GPUHEAP_FN void release_bits(unsigned first, simt::uint64_t which, unsigned owner) const {
    for (; which != 0; which &= which - 1) release(first + simt::lowest_bit(which), owner);
  }
};

// The cells' memory.
class cell_memory {
 public:
  explicit cell_memory(unsigned count) : cells_(count), wrong_(1) {}

  [[nodiscard]] owned_cells view() const { return {cells_.data(), wrong_.data()}; }
  // 0, or the owner + 1, of each thing.
  [[nodiscard]] std::vector<unsigned> owners() const { return cells_.read(); }
  [[nodiscard]] std::string problem() const {
    unsigned const n = wrong_.first();
    return n == 0 ? "" : std::to_string(n) + " claims or releases of a thing that belonged to another thread\n";
  }

 private:
  test::device_array<unsigned> cells_;
  test::device_array<unsigned> wrong_;
};

}  // namespace structures_test
