// Things that move between two places where they can be found.
//
// A search that goes through several places one after the other can miss what moves from a place not yet searched to one already searched.
// Every such move is bracketed by begin() and end(); a search that saw the same quiet() value before and after missed nothing that moved.
//
//   word = {moves ever begun : 32, moves under way : 32}
#pragma once

#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of one word. Any thread of the device.
struct transit_count {
  using word = simt::uint64_t;
  static constexpr word begun_one = word{1} << 32;
  static constexpr word under_way_mask = begun_one - 1;

  word* state = nullptr;

  // acq_rel, all three: a search whose second look still reads its first value is ordered before every later move, and after every earlier
  // one. A move that began earlier than the second look in the word's order changes the value read, because looks are read-modify-writes
  // too.
  GPUHEAP_FN void begin() const { simt::atomic_ref<word>{*state}.fetch_add(begun_one + 1, simt::acq_rel); }
  GPUHEAP_FN void end() const { simt::atomic_ref<word>{*state}.fetch_sub(1, simt::acq_rel); }
  [[nodiscard]] GPUHEAP_FN word look() const { return simt::atomic_ref<word>{*state}.fetch_add(0, simt::acq_rel); }
  // Nothing was under way at that look.
  [[nodiscard]] GPUHEAP_HD static bool quiet(word seen) { return (seen & under_way_mask) == 0; }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
