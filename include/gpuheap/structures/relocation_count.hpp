// A sequence count for things that move between two places in which searches look for them.
//
// A search that visits several places one after the other can miss a thing that moves from a place not yet visited to one already visited.
// Every such move is bracketed by begin() and end(). A search that saw the same quiet() value before and after has missed no move.
//
//   word = {moves ever begun : 32, moves under way : 32}
//
// The argument: the move takes the thing out of its old place with a releasing read-modify-write after begin(), and puts it into its new
// place before end(), which releases. Suppose that a search missed it: it found the old place empty. Then it read from that
// read-modify-write or from a later one of that place, and read_end(), which an acquire fence precedes, sees the begin(). If read_begin()
// had seen begin() and end() as well, it acquired the end(), and found the thing in its new place. So either the values differ or the first
// one is not quiet.
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct relocation_count {
  using word = simt::uint64_t;
  static constexpr word begun_one = word{1} << 32;
  static constexpr word under_way_mask = begun_one - 1;

  word* state = nullptr;

  // relaxed: the read-modify-write that takes the thing releases it.
  GPUHEAP_FN void begin() const { simt::global_ref<word>{*state}.fetch_add(begun_one + 1, simt::relaxed); }
  // release: the thing is in its new place.
  GPUHEAP_FN void end() const { simt::global_ref<word>{*state}.fetch_sub(1, simt::release); }
  // relaxed: a guess.
  [[nodiscard]] GPUHEAP_FN word glance() const { return simt::global_ref<word>{*state}.load(simt::relaxed); }
  // Before a search. acquire: pairs with end().
  [[nodiscard]] GPUHEAP_FN word read_begin() const { return simt::global_ref<word>{*state}.load(simt::acquire); }
  // After a search. The fence makes the loads of the search acquires.
  [[nodiscard]] GPUHEAP_FN word read_end() const {
    simt::fence(simt::acquire);
    return simt::global_ref<word>{*state}.load(simt::relaxed);
  }
  // Whether no move was under way at that read.
  [[nodiscard]] GPUHEAP_HD static bool quiet(word seen) { return (seen & under_way_mask) == 0; }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
