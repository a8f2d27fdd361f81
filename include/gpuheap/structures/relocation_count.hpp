// Things that move between two places where they can be found.
//
// A search that goes through several places one after the other can miss what moves from a place not yet searched to one already searched.
// Every such move is bracketed by begin() and end(); a search that saw the same quiet() value before and after missed nothing that moved.
//
//   word = {moves ever begun : 32, moves under way : 32}
//
// Why that is enough. The move takes the thing out of its old place with a releasing read-modify-write after begin(), and puts it into its
// new place before end(), which releases. Suppose that a search missed it: it found the old place empty. Then it read from the taking or
// from a later read-modify-write of that place, and its second look, which an acquire fence precedes, sees the begin(). If the first look
// had seen begin() and end() as well, it acquired the end(), and found the thing in its new place. So either the values differ or the first
// is not quiet.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct relocation_count {
  using word = simt::uint64_t;
  static constexpr word begun_one = word{1} << 32;
  static constexpr word under_way_mask = begun_one - 1;

  word* state = nullptr;

  // relaxed: the taking that follows releases it.
  GPUHEAP_FN void begin() const { simt::global_ref<word>{*state}.fetch_add(begun_one + 1, simt::relaxed); }
  // release: the thing is in its new place.
  GPUHEAP_FN void end() const { simt::global_ref<word>{*state}.fetch_sub(1, simt::release); }
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN word glance() const { return simt::global_ref<word>{*state}.load(simt::relaxed); }
  // acquire: pairs with end(). Before a search.
  [[nodiscard]] GPUHEAP_FN word read_begin() const { return simt::global_ref<word>{*state}.load(simt::acquire); }
  // After it. The fence makes acquires of all loads of the search.
  [[nodiscard]] GPUHEAP_FN word read_end() const {
    simt::fence(simt::acquire);
    return simt::global_ref<word>{*state}.load(simt::relaxed);
  }
  // Nothing was under way at that look.
  [[nodiscard]] GPUHEAP_HD static bool quiet(word seen) { return (seen & under_way_mask) == 0; }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
