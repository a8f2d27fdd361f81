// Large allocations: contiguous pages that the segment map claims, with a tag and a header at their first page. frees.hpp frees them,
// resize.hpp makes them longer or shorter.
#pragma once

#include <gpuheap/allocators/sharded_spans/drain.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// malloc for requests that are larger than the largest slot.
template <class Named>
struct large_allocations : drains<Named> {
  using spans::at;
  using spans::relocations;
  using spans::segments;

  // Allocates `n` contiguous pages, the first of which is aligned to `alignment` pages, for each lane of `here`. Returns the lane's
  // address; nullptr if no free pages fit. All lanes of `here` call. If all of them ask for the same, one claim gets contiguous pages for
  // all lanes, or for as many lanes as fit.
  GPUHEAP_COLD void* malloc_large(lane_mask here, unsigned n, unsigned alignment) {
    unsigned const first = simt::lowest_bit(here);
    uint64_t const me = reinterpret_cast<uint64_t>(this), mine = uint64_t{alignment} << 32 | n;
    uint64_t const heap0 = simt::shuffle(here, me, first), asked0 = simt::shuffle(here, mine, first);
    bool const same = me == heap0 && mine == asked0 && n % alignment == 0;
    // The lanes that one claim serves.
    unsigned together = simt::all_of(here, same) ? simt::popcount(here) : 1;
    simt::back_off pause;
    uint64_t first_search = 0, this_search = 0;
    // Ends: a pass serves some of the lanes, or halves `together`. Of a lane alone, a pass claims pages, or drains a shard, or refuses, or
    // saw another warp's relocation, which is that warp's progress. A search that finds nothing relocates nothing, so threads that are all
    // to be refused do not keep each other searching.
    GPUHEAP_NO_UNROLL
    for (;;) {
      if (together == 1) here = lane_mask{1} << simt::lane_id();
      if (first_search != 0) {
        if (this->refused_large_since(n, first_search)) return nullptr;
        this_search = this->begin_search();
      }
      warp_group const g{here};
      uint64_t const before = together == 1 ? relocations().read_begin() : 0;
      unsigned page = segment_map::none;
      if (g.leads() && n <= at.num_pages / together)
        page = segments().claim_extent(n * together, alignment, phase_of(alignment), relocations());
      page = g.from_leader(page);
      // All lanes acquire what the leader acquired.
      simt::sync_warp(here);
      if (page != segment_map::none) {
        bool const served = g.rank() < together;
        if (served) cut_extent(page, n * together, page + n * g.rank(), n);
        void* const block = served ? begin_large(page + n * g.rank(), n) : nullptr;
        lane_mask const left = simt::ballot(here, !served);
        // The barrier comes before a lane can free its allocation: that free reads tags that other lanes wrote here.
        simt::sync_warp(here);
        if (served) return block;
        here = left;
        if (together > simt::popcount(here)) together = simt::popcount(here);
        continue;
      }
      if (together > 1) {
        together /= 2;
        continue;
      }
      if (this->reclaim(here, size_classes::count)) continue;
      if (relocation_count::quiet(before) && relocations().read_end() == before) {
        if (alignment == 1 && this_search != 0) this->refuse_large(n, this_search);
        return nullptr;
      }
      if (first_search == 0) first_search = this->begin_search();
      pause.wait();
    }
  }
  // The heap's first page may not be aligned to `alignment` pages. Where this number plus a page's number is a multiple of `alignment`, the
  // page's address is aligned.
  [[nodiscard]] GPUHEAP_FN unsigned phase_of(unsigned alignment) {
    return static_cast<unsigned>(reinterpret_cast<simt::uintptr_t>(at.base) >> at.page_shift) & (alignment - 1);
  }
  // Cuts the piece of n pages from `page` on out of an extent of `total` pages from `first` on. The extent owns a segment that it covers
  // entirely as a whole one. If the piece begins at or before the start of such a segment and ends inside it, that segment will have
  // several owners, so it becomes a broken segment without a free page. One thread for each piece.
  GPUHEAP_FN void cut_extent(unsigned first, unsigned total, unsigned page, unsigned n) {
    unsigned const segment = (page + n - 1) / 64, begin = segment * 64, end = begin + 64;
    if (begin >= page && end > page + n && end <= first + total) segments().break_up(segment, 0);
  }
  // Makes a large allocation of n pages that the caller has claimed, and returns its address. One thread.
  GPUHEAP_FN void* begin_large(unsigned page, unsigned n) {
    uint64_t const generation = span_header{at.header(page).load(simt::relaxed)}.generation() + 1;
    // relaxed, both: the pointer reaches another thread only through the caller's own synchronisation.
    at.header(page).store(span_header::large_allocation(n, generation).bits, simt::relaxed);
    this->tag_of_extent(page, n).store(span_tag::large_head, simt::relaxed);
    return at.address(page, 0, 0);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
