// Counts relocations, so that a search through several places knows whether it can have missed something.
//
// A search that goes through places one after the other can miss a thing that moves from a place not yet searched to a place already
// searched. Each such move, a relocation, lies between begin() and end(). If read_begin() before a search and read_end() after it return
// the same value, and quiet() is true for this value, the search missed nothing that moved.
//
//   word = {relocations ever begun : 32, relocations open : 32}
//
// Why that is enough. A relocation takes the thing out of its old place by a releasing read-modify-write after begin(), and puts it into
// its new place before end(), which releases. Suppose that a search missed the thing: it found the old place empty. Then the search read
// the value that this read-modify-write wrote, or a later value of the old place. So read_end(), whose load follows an acquire fence, sees
// the begin(). If read_begin() had seen both begin() and end(), it would have acquired the end(), and the search would have found the thing
// in its new place. So either the two values differ, or the first is not quiet.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct relocation_count {
  using word = simt::uint64_t;
  static constexpr word begun_one = word{1} << 32;
  static constexpr word under_way_mask = begun_one - 1;

  word* state = nullptr;

  // relaxed: the read-modify-write that takes the thing from its old place releases it.
  GPUHEAP_FN void begin() const { simt::global_ref<word>{*state}.fetch_add(begun_one + 1, simt::relaxed); }
  // release: the thing is in its new place.
  GPUHEAP_FN void end() const { simt::global_ref<word>{*state}.fetch_sub(1, simt::release); }
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN word glance() const { return simt::global_ref<word>{*state}.load(simt::relaxed); }
  // Called before a search. acquire: pairs with end().
  [[nodiscard]] GPUHEAP_FN word read_begin() const { return simt::global_ref<word>{*state}.load(simt::acquire); }
  // Called after a search. The fence makes all loads of the search acquire.
  [[nodiscard]] GPUHEAP_FN word read_end() const {
    simt::fence(simt::acquire);
    return simt::global_ref<word>{*state}.load(simt::relaxed);
  }
  // Whether no relocation was open when the word was `seen`.
  [[nodiscard]] GPUHEAP_HD static bool quiet(word seen) { return (seen & under_way_mask) == 0; }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
