// The part of a ScatterAlloc heap's state that serves requests of up to a page, and the search for a page with room.
#pragma once

#include <gpuheap/allocators/scatteralloc/layout.hpp>
#include <gpuheap/simt/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter {

// The result of a search: a page in which chunks are reserved for the caller, and the page's word before the reservation. If the page had
// fewer free chunks than were wanted, all of these are reserved. The reservations are numbered from before.fill() on; each number is also
// that of the chunk at which the owner of the reservation begins to search for a clear bit.
struct grant {
  uint32_t page = no_page;
  slab_word before{};
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return page == no_page; }
  // The grant as one value, for a shuffle.
  [[nodiscard]] GPUHEAP_HD constexpr uint64_t packed() const { return uint64_t{page} << 32 | before.bits; }
  [[nodiscard]] GPUHEAP_HD static constexpr grant unpacked(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), {static_cast<slab_word::word>(bits)}};
  }
};

// The pool. Device, any thread. The functions are out of line and work on a state in memory, so that the view's fast path stays small.
template <scatteralloc_config Config, class Parts>
struct alignas(128) pool {
  using layout_type = layout<Config, Parts>;

  layout_type at;
  // {number of pages, active super block}. Only the host changes the number of pages.
  alignas(128) uint64_t extent_bits = 0;
  // The number of regions that look full, for each super block. A hint.
  alignas(128) uint32_t full_regions[Config.super_blocks] = {};

  [[nodiscard]] GPUHEAP_FN extent there() {
    // relaxed: the number of pages does not change during a kernel, and the active super block is a hint.
    return {simt::global_ref<uint64_t>{extent_bits}.load(simt::relaxed)};
  }

  // Reserves up to `wanted` chunks for requests of `units` units in one page. The search begins at page `start` and goes around the heap
  // twice: first through the regions that do not look full, then through all regions. The result is none() if the second round saw each
  // page without room.
  [[nodiscard]] GPUHEAP_COLD grant search(unsigned units, unsigned wanted, uint32_t start) {
    // acquire: empties the multiprocessor's L1, which may hold an old active super block.
    uint32_t const num_pages = extent{simt::global_ref<uint64_t>{extent_bits}.load(simt::acquire)}.pages();
    GPUHEAP_NO_UNROLL
    for (unsigned pass = 0; pass != 2; ++pass) {
      bool const every = pass == 1;
      uint32_t page = start;
      // Ends: `left` falls to 0, once around the heap.
      GPUHEAP_NO_UNROLL
      for (uint32_t left = num_pages; left != 0;) {
        uint32_t const region = page / Config.region_pages;
        uint32_t n = Config.region_pages - page % Config.region_pages;
        if (!every && page % at.block_pages == 0 && left != num_pages && looks_full(page / at.block_pages)) {
          n = at.block_pages;
          if (n > num_pages - page) n = num_pages - page;
          if (n > left) n = left;
        } else {
          if (n > num_pages - page) n = num_pages - page;
          if (n > left) n = left;
          uint32_t const seen = visits_of(region).load(simt::relaxed);  // relaxed: a hint
          if (every || seen < Config.region_full_visits) {
            grant const got = search_pages(page, n, units, wanted, every);
            if (!got.none()) return got;
            if (seen < Config.region_full_visits) count_visit(region, seen);
          }
        }
        left -= n;
        page = page + n == num_pages ? 0 : page + n;
      }
    }
    return {};
  }

  // Called after chunks or runs of the region were freed: the region no longer looks full.
  GPUHEAP_FN void room_in_region(uint32_t region) {
    // relaxed, all: hints.
    if (visits_of(region).load(simt::relaxed) == 0) return;
    if (visits_of(region).exchange(0, simt::relaxed) == Config.region_full_visits) {
      full_in_block(region * Config.region_pages / at.block_pages).fetch_sub(1, simt::relaxed);
    }
  }

 protected:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> visits_of(uint32_t region) const {
    return simt::global_ref<uint32_t>{at.visits[region]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> full_in_block(unsigned block) {
    return simt::global_ref<uint32_t>{full_regions[block]};
  }

  // Searches n pages of one region, from page `first` on.
  [[nodiscard]] GPUHEAP_FN grant search_pages(uint32_t first, uint32_t n, unsigned units, unsigned wanted, bool every) const {
    unsigned const own_capacity = at.capacity(units);
    GPUHEAP_NO_UNROLL
    for (uint32_t i = 0; i < n; i += 4) {
      // Four pages at a time, so that four loads are in flight.
      slab_word words[4];
      for (unsigned j = 0; j < 4; ++j) words[j] = i + j < n ? at.state(first + i + j).look() : slab_word::of(run_tail, 1);
      unsigned promising = 0;
      slab_word seen{};
      for (unsigned j = 4; j-- != 0;) {
        bool const room = words[j].kind() == units ? words[j].fill() < own_capacity : at.serves(words[j].kind(), units);
        if (!room && !words[j].is_free()) continue;
        promising |= 1u << j;
        seen = words[j];
      }
      // Ends: each pass clears a bit.
      GPUHEAP_NO_UNROLL
      while (promising != 0) {
        uint32_t const page = first + i + simt::lowest_bit(promising);
        grant const got = try_page(page, seen, units, wanted, every);
        if (!got.none()) return got;
        promising &= promising - 1;
        if (promising != 0) seen = at.state(first + i + simt::lowest_bit(promising)).look();
      }
    }
    return {};
  }

  // Reserves chunks in one page, whose word was `seen`. If `patient`, waits for a page that is being opened.
  [[nodiscard]] GPUHEAP_FN grant try_page(uint32_t page, slab_word seen, unsigned units, unsigned wanted, bool patient) const {
    auto const state = at.state(page);
    simt::back_off pause;
    // Ends: a pass that does not return lost the word to another thread's change, which is that thread's progress; or it waits for the
    // thread that opens the page, which waits for no thread.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (seen.is_free() && seen.kind() != units) {
        unsigned const capacity = at.capacity(units), n = wanted < capacity ? wanted : capacity;
        bool const prepares = at.is_two_level(units);
        if (!state.open(seen, units, n, prepares)) continue;
        if (prepares) {
          at.many_chunks(page, units).clear_segments();
          state.publish(units, n);
        }
        return {page, slab_word::of(units, 0)};
      }
      if (!at.serves(seen.kind(), units)) return {};
      if (seen.is_opening()) {
        if (!patient) return {};
        pause.wait();
        seen = state.look();
        continue;
      }
      unsigned const capacity = at.capacity(seen.kind());
      if (seen.fill() >= capacity) return {};
      unsigned const n = capacity - seen.fill() < wanted ? capacity - seen.fill() : wanted;
      slab_word const before = seen;
      if (state.reserve(seen, n)) return {page, before};
    }
  }

  // Counts a visit to a region that found nothing. `seen`: the count before this visit.
  GPUHEAP_FN void count_visit(uint32_t region, uint32_t seen) {
    // relaxed, all: hints. If several threads raise the count to the threshold, only one of them gets a lower count from fetch_max, and
    // only this one counts the region as full.
    uint32_t const before = visits_of(region).fetch_max(seen + 1, simt::relaxed);
    if (before >= Config.region_full_visits || seen + 1 != Config.region_full_visits) return;
    unsigned const block = region * Config.region_pages / at.block_pages;
    full_in_block(block).fetch_add(1, simt::relaxed);
    if (!looks_full(block)) return;
    extent const now = there();
    if (now.active() != block) return;
    unsigned const next = block + 1 == at.num_blocks(now.pages()) ? 0 : block + 1;
    uint64_t expected = now.bits;
    (void)simt::global_ref<uint64_t>{extent_bits}.compare_exchange(expected, extent::of(now.pages(), next).bits, simt::relaxed,
                                                                   simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN bool looks_full(unsigned block) {
    uint32_t const regions = at.num_regions(at.pages_in_block(block, there().pages()));
    // The count is below 0 for a moment if a region is reset before it was counted.
    auto const full = static_cast<int>(full_in_block(block).load(simt::relaxed));  // relaxed: a hint
    return full > 0 && static_cast<uint64_t>(full) * 100 >= uint64_t{regions} * Config.super_block_percent;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter
