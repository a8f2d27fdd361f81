// Runs of neighbouring pages, out of pages that each are claimed by one atomic and may be claimed by others meanwhile. From the pages' end
// downward.
//
//   take:  `end` hands out windows, each to one thread: one subtraction. Is a window not free, or none left below `end`, all pages are
//          searched.
//   claim: the pages one by one, upward; whoever meets one that is not free gives back those that it has, and is foiled. Of claims that
//          overlap, the one at the highest place is foiled by none of the others: so claims do not foil each other for ever.
//   freed: raises `end`.
//
// Who was foiled begins again, and so does who found nothing while another was foiled: pages that one had for a moment looked taken. Not
// so for claims that are foiled later: then a place may be missed.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// In memory, shared by all threads; made of zeros but for `end`. `Pages`, of each call: a view of the pages,
//   uint32_t count() const               how many there are, less than 2^32 - 1
//   bool is_free(uint32_t) const         a guess
//   bool claim(uint32_t) const           makes a page that is free the caller's; false if it is not free
//   void give(uint32_t first, uint32_t n) const   makes n pages of the caller free again
//   void keep(uint32_t first, uint32_t n) const   told that n pages, all claimed, are a run
//   void begin_claims() const, end_claims() const   around the claims of several pages, and giving them back or keeping them
struct page_runs {
  using index = long long;  // of a page; negative: none
  static constexpr index none = -1;
  // `end` is kept with this added: it never falls below 0, whoever subtracts, and the largest is the highest.
  static constexpr simt::uint64_t end_bias = simt::uint64_t{1} << 62;

  simt::uint64_t end = end_bias;  // windows are handed out below this page. A hint
  simt::uint32_t foiled = 0;      // claims that were in vain. Wraps

  // The first of k (> 0) pages that are the caller's now, or `none`.
  template <class Pages>
  [[nodiscard]] GPUHEAP_COLD index take(Pages const& pages, simt::uint64_t k) {
    if (k > pages.count()) return none;
    auto const n = static_cast<index>(k);
    simt::global_ref<simt::uint32_t> const in_vain{foiled};
    // Ends: a pass that goes on saw a claim foiled. What foiled it is a page that somebody else has got: for good, or for a claim at a
    // higher place, the highest of which is foiled by none of them. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with the release in claim(): the pages that were given back then look free.
      simt::uint32_t const before = in_vain.load(simt::acquire);
      index first = take_next_window(pages, n);
      if (first == none) first = search(pages, n);
      if (first != none) return first;
      // The fence makes acquires of the looks: if one saw a claim, and `before` counted it as foiled, the page would have looked free.
      simt::fence(simt::acquire);
      if (in_vain.load(simt::relaxed) == before) return none;
    }
  }
  // Tells that pages below `page` have become free. Any thread.
  GPUHEAP_FN void freed(simt::uint32_t page) {
    // relaxed: a hint.
    simt::global_ref<simt::uint64_t>{end}.fetch_max(end_bias + page, simt::relaxed);
  }

 protected:
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index take_next_window(Pages const& pages, index n) {
    simt::global_ref<simt::uint64_t> const word{end};
    // relaxed, both: who claims the pages acquires.
    if (static_cast<index>(word.load(simt::relaxed) - end_bias) < n) return none;
    auto const mine = static_cast<index>(word.fetch_sub(static_cast<simt::uint64_t>(n), simt::relaxed) - end_bias);
    if (mine < n || mine > static_cast<index>(pages.count()) || first_taken(pages, mine - n, n) != mine) return none;
    return claim(pages, mine - n, n) == mine ? mine - n : none;
  }

  // Any run, from `end` down, and then from the last page down to `end`.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index search(Pages const& pages, index n) {
    auto const count = static_cast<index>(pages.count());
    auto from = static_cast<index>(simt::global_ref<simt::uint64_t>{end}.load(simt::relaxed) - end_bias);
    if (from > count) from = count;
    if (from < 0) from = 0;
    index const first = search_between(pages, n, 0, from);
    // Windows that reach beyond.
    return first != none ? first : search_between(pages, n, from - n + 1 > 0 ? from - n + 1 : 0, count);
  }
  // The highest run of n pages inside lowest .. behind - 1.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index search_between(Pages const& pages, index n, index lowest, index behind) {
    // Ends: `first` falls.
    GPUHEAP_NO_UNROLL
    for (index first = behind - n; first >= lowest;) {
      index taken = first_taken(pages, first, n);
      if (taken == first + n) taken = claim(pages, first, n);
      if (taken == first + n) {
        // relaxed: a hint.
        simt::global_ref<simt::uint64_t>{end}.store(end_bias + static_cast<simt::uint64_t>(first), simt::relaxed);
        return first;
      }
      // `taken` is the lowest page of the window that is in use: no window with it is free.
      first = taken - n;
    }
    return none;
  }

  // The first page of first .. first + n - 1 that is not free, or first + n.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN static index first_taken(Pages const& pages, index first, index n) {
    GPUHEAP_NO_UNROLL
    for (index i = 0; i < n; i += 4) {
      unsigned in_use = 0;
      // Behind the window's end its last page stands for the others.
      for (unsigned j = 0; j < 4; ++j) {
        index const page = first + (i + j < n ? i + j : n - 1);
        in_use |= (pages.is_free(static_cast<simt::uint32_t>(page)) ? 0u : 1u) << j;
      }
      if (in_use != 0) return first + (i + simt::lowest_bit(in_use) < n ? i + simt::lowest_bit(in_use) : n - 1);
    }
    return first + n;
  }
  // Claims first .. first + n - 1. Returns the first page that is not free, and has none then, or first + n.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index claim(Pages const& pages, index first, index n) {
    index page = first;
    pages.begin_claims();
    // Ends: n passes.
    GPUHEAP_NO_UNROLL
    while (page != first + n && pages.claim(static_cast<simt::uint32_t>(page))) ++page;
    if (page == first + n) {
      pages.keep(static_cast<simt::uint32_t>(first), static_cast<simt::uint32_t>(n));
    } else if (page != first) {
      pages.give(static_cast<simt::uint32_t>(first), static_cast<simt::uint32_t>(page - first));
    }
    pages.end_claims();
    if (page == first + n) return page;
    // release: the pages are free. Pairs with the acquire in take().
    simt::global_ref<simt::uint32_t>{foiled}.fetch_add(1, simt::release);
    return page;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
