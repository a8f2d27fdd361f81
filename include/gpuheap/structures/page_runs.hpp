// Runs of neighbouring pages. Each page is claimed by one atomic, and other threads may claim single pages meanwhile. Runs are taken from
// the end of the pages downward.
//
//   take:  a thread that wants n pages subtracts n from `end`. The n pages below the old `end` are its window. Until `end` rises
//          again, no other thread gets these pages as its window. If a page of the window is in use, or fewer than n pages are left below
//          `end`, the thread searches all pages.
//   claim: a thread claims the pages of a run one by one, upward. If it meets a page that is not free, it gives back the pages that it
//          has: the claim is foiled. If the page belongs to a claim that is foiled in turn, a higher page foils that claim, since claims go
//          upward. So a chain of claims that foil one another ends at a page that a thread has for good.
//   freed: raises `end`.
//
// A thread whose claim was foiled begins again. So does a thread that found no run, if it sees that another thread's claim was foiled
// meanwhile: some pages may have looked taken only because that claim had them for a moment. The orders of `foiled` give two promises:
//   - Of several threads that want the same pages, one gets them. A foiled thread loads its own count or a later one when it begins again,
//     and that load acquires the counts before it. So the thread whose count is the last finds the pages of all foiled claims free.
//   - A search misses no run because of a claim that was counted as foiled before a change of a page that the search has read. The chain,
//     from thread B over thread C to the searching thread A:
//       B  gives its pages back; adds 1 to `foiled` (release)
//       C  loads `foiled` (acquire) at the beginning of its take; claims or gives page q (release, see `Pages`)
//       A  loads the word of q (relaxed); fence (acquire); loads `foiled`
//     B's addition and C's load, and C's change of q and A's load with its fence, are release and acquire patterns of the PTX model. All
//     are morally strong, since all have device scope and access whole words. So B's addition precedes A's last load in causality order,
//     and the causality axiom forbids that this load returns an older value. C may be B, or several threads in a row. Without the fence,
//     A's load of q is no acquire pattern.
// No model orders a count against a search that has read nothing that came after the count. A search may miss a run because of such a
// claim. fence.sc would not change this, since the claim may be counted after the search has ended.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The state, in memory that all threads share: zeros, except for `end`. Each call gets a view of the pages, of a type `Pages` with these
// members:
//   uint32_t count() const               how many there are, less than 2^32 - 1
//   bool is_free(uint32_t) const         a guess
//   bool claim(uint32_t) const           gives the caller the page if it is free; otherwise returns false. Acquires; releases unless
//                                        begin_claims() has done so by a fence
//   void give(uint32_t first, uint32_t n) const   makes n pages of the caller free again. Releases
//   void keep(uint32_t first, uint32_t n) const   learns that n pages, all claimed by the caller, are a run
//   void begin_claims() const, end_claims() const   called before the claims of a run's pages, and after give() or keep()
struct page_runs {
  using index = long long;  // the number of a page; negative: no page
  static constexpr index none = -1;
  // In memory, `end` is a page number plus this bias. Whatever threads subtract, the sum stays above 0, so an unsigned fetch_max finds the
  // highest page.
  static constexpr simt::uint64_t end_bias = simt::uint64_t{1} << 62;

  simt::uint64_t end = end_bias;  // the next window ends at this page. A hint
  simt::uint32_t foiled = 0;      // the number of foiled claims. Wraps

  // Takes k (> 0) neighbouring pages and returns the first, or `none`.
  template <class Pages>
  [[nodiscard]] GPUHEAP_COLD index take(Pages const& pages, simt::uint64_t k) {
    if (k > pages.count()) return none;
    auto const n = static_cast<index>(k);
    simt::global_ref<simt::uint32_t> const in_vain{foiled};
    // Ends: the loop is repeated only if a claim was foiled. Another thread had the page that foiled the claim, either for good or for a
    // claim that a higher page foiled in turn. Such a chain of pages rises, so it ends at a page that a thread has got for good. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with the release in page_runs::claim(), so the pages of counted claims look free.
      simt::uint32_t const before = in_vain.load(simt::acquire);
      index first = take_next_window(pages, n);
      if (first == none) first = search(pages, n);
      if (first != none) return first;
      // acquire: pairs with the releases of the changes of pages that the search has read. So the load behind the fence sees each count
      // that came before one of these changes (the second promise above).
      simt::fence(simt::acquire);
      if (in_vain.load(simt::relaxed) == before) return none;
    }
  }
  // Raises `end` to `page`, because pages below it have become free. Any thread.
  GPUHEAP_FN void freed(simt::uint32_t page) {
    // relaxed: a hint.
    simt::global_ref<simt::uint64_t>{end}.fetch_max(end_bias + page, simt::relaxed);
  }

 protected:
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index take_next_window(Pages const& pages, index n) {
    simt::global_ref<simt::uint64_t> const word{end};
    // relaxed, both: the window is only a hint, and the claim of its pages acquires.
    if (static_cast<index>(word.load(simt::relaxed) - end_bias) < n) return none;
    auto const mine = static_cast<index>(word.fetch_sub(static_cast<simt::uint64_t>(n), simt::relaxed) - end_bias);
    if (mine < n || mine > static_cast<index>(pages.count()) || first_taken(pages, mine - n, n) != mine) return none;
    return claim(pages, mine - n, n) == mine ? mine - n : none;
  }

  // Claims any run, and returns its first page or `none`. The search goes from `end` down, and then from the last page down to `end`.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN index search(Pages const& pages, index n) {
    auto const count = static_cast<index>(pages.count());
    // relaxed: a hint.
    auto from = static_cast<index>(simt::global_ref<simt::uint64_t>{end}.load(simt::relaxed) - end_bias);
    if (from > count) from = count;
    if (from < 0) from = 0;
    index const first = search_between(pages, n, 0, from);
    // The runs that reach beyond `end`.
    return first != none ? first : search_between(pages, n, from - n + 1 > 0 ? from - n + 1 : 0, count);
  }
  // Claims the highest free run of n pages inside lowest .. behind - 1.
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
      // `taken` is the lowest of the n pages that is in use. No run that contains it is free.
      first = taken - n;
    }
    return none;
  }

  // Returns the first page of first .. first + n - 1 that is not free, or first + n.
  template <class Pages>
  [[nodiscard]] GPUHEAP_FN static index first_taken(Pages const& pages, index first, index n) {
    GPUHEAP_NO_UNROLL
    for (index i = 0; i < n; i += 4) {
      unsigned in_use = 0;
      // Past the end of the range, the loop reads the last page again.
      for (unsigned j = 0; j < 4; ++j) {
        index const page = first + (i + j < n ? i + j : n - 1);
        in_use |= (pages.is_free(static_cast<simt::uint32_t>(page)) ? 0u : 1u) << j;
      }
      if (in_use != 0) return first + (i + simt::lowest_bit(in_use) < n ? i + simt::lowest_bit(in_use) : n - 1);
    }
    return first + n;
  }
  // Claims first .. first + n - 1. Returns first + n, or the first page that is not free; then the caller has none of them.
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
    // release: the pages are free again. Pairs with the acquire in take().
    simt::global_ref<simt::uint32_t>{foiled}.fetch_add(1, simt::release);
    return page;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
