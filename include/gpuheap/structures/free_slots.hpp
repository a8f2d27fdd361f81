// A set of up to 64 slots. One word has a bit for each slot, which is set while the slot is free. An atomic AND takes several slots at
// once, and an atomic OR gives them back. While all slots are free, a compare-exchange can close the set: from then on no thread can take a
// slot.
//
//   word   0        no slot is free, or the slots are closed
//          all      no thread has a slot: the only value that can be closed
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread.
struct free_slots {
  using word = simt::uint64_t;
  static constexpr unsigned most = 64;

  word* free = nullptr;

  // Position of the n-th (from 0) set bit of x, n < popcount(x).
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned nth(word x, unsigned n) {
    unsigned at = 0;
    for (unsigned half = 32; half != 0; half /= 2) {
      unsigned const below = simt::popcount(static_cast<simt::uint32_t>(x & simt::low_bits(half)));
      if (n < below) continue;
      n -= below;
      at += half;
      x >>= half;
    }
    return at;
  }
  // The first n set bits of x from bit `start` (0..63) on, wrapping around; all of x if it has no more than n.
  [[nodiscard]] GPUHEAP_HD static constexpr word choose(word x, unsigned n, unsigned start) {
    if (simt::popcount(x) <= n) return x;
    word const turned = simt::rotate_down(x, start);
    return simt::rotate_up(turned & simt::low_bits(nth(turned, n)), start);
  }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> ref() const { return simt::global_ref<word>{*free}; }

  // The slots that a claim got, and those that were free after it.
  struct claimed {
    word slots = 0;  // 0: none was free at one moment
    word left = 0;
  };
  // Takes up to n (> 0) slots, from bit `start` on, wrapping around. The call takes fewer if fewer are free, or if other threads take some
  // of them at the same time.
  [[nodiscard]] GPUHEAP_FN claimed claim(unsigned n, unsigned start) const {
    // relaxed: a guess that the AND confirms.
    word seen = ref().load(simt::relaxed);
    // Ends: the loop is repeated only if other threads have taken all chosen slots since. Lock-free.
    GPUHEAP_NO_UNROLL
    while (seen != 0) {
      word const wanted = choose(seen, n, start);
      // relay: comes after the fences of the slots' last owners and after open(), and before the accesses of the new owner.
      word const before = ref().fetch_and(~wanted, simt::relay);
      if ((before & wanted) != 0) return {before & wanted, before & ~wanted};
      seen = before;
    }
    return {};
  }

  // Gives slots back, and returns the word as it was. Before the call, a fence must have released the owners' accesses to the slots.
  GPUHEAP_FN word release(word slots) const {
    // relay: passes on what that fence released, to the thread that takes or closes the slots next. Pairs with claim() and close().
    return ref().fetch_or(slots, simt::relay);
  }

  // Closes the set: takes all slots until open(), if all of them are free. `all`: the bits of all slots.
  [[nodiscard]] GPUHEAP_FN bool close(word all) const {
    // acq_rel: comes after the releases of all slots, and before what the closing thread publishes next. relaxed on failure: nothing has
    // changed.
    return ref().compare_exchange(all, 0, simt::acq_rel, simt::relaxed);
  }
  // Makes `slots` free again. The caller is the thread that closed the set, or has got the closed slots from that thread.
  GPUHEAP_FN void open(word slots) const {
    // release: the caller's accesses to the slots come before. Pairs with claim().
    ref().store(slots, simt::release);
  }
};
static_assert(free_slots::nth(1, 0) == 0 && free_slots::nth(~0ull, 63) == 63 && free_slots::nth(0x8000000000000010, 1) == 63);
static_assert(free_slots::choose(0b1011, 2, 0) == 0b0011 && free_slots::choose(0b1011, 2, 1) == 0b1010 &&
              free_slots::choose(0b1011, 2, 3) == 0b1001 && free_slots::choose(0b1011, 3, 5) == 0b1011);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
