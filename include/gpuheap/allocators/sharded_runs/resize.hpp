// Making an allocation of whole segments longer or shorter where it is.
//
// The segments behind it are claimed like any others: all of those wanted or none, so whoever else wants one of them either has it or finds
// it gone. The allocation's length is in its header, and whoever changes that (a resize, a free) does so with one compare-exchange from
// what it saw: of a resize and a free of the same pointer at once, which is the program's mistake, one wins, and each gives back exactly
// what the header said was its own.
#pragma once

#include <gpuheap/allocators/sharded_runs/runs.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// Makes the allocation whose head is segment s one of `n` segments, n > 0, in place. False, and nothing has changed: the segments behind it
// are not free, or it is no allocation any more. One thread, which owns the allocation. Ends: three steps, none of which waits.
[[nodiscard]] GPUHEAP_COLD inline bool resize_large(runs* heap, unsigned s, unsigned n) {
  unsigned const page = s << heap->at.lg_pages;
  // relaxed: the owner's pointer came with what was last written here.
  uint64_t seen = heap->at.header(page).load(simt::relaxed);
  run_header const h{seen};
  if (!h.is_large()) return false;
  unsigned const has = h.large_segments();
  if (n == has) return true;
  // Acquires what the last owners of these segments released. They carry neither tags nor headers: those of free memory, as they must be.
  if (n > has && !heap->segments().claim_at(s + has, n - has, heap->moves())) return false;
  // relaxed: whoever frees the allocation got the pointer from this thread. What this thread did to the segments that it gives up is
  // released together with them.
  bool const changed =
      heap->at.header(page).compare_exchange(seen, run_header::fresh_large(n, h.generation()).bits, simt::relaxed, simt::relaxed);
  if (changed && n < has) heap->segments().release_segments(s + n, has - n);
  if (!changed && n > has) heap->segments().release_segments(s + has, n - has);
  return changed;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
