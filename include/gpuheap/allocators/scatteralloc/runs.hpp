// Requests of more than a page take runs of adjacent pages, from the heap's end downward. The state of a page of a run has a kind that no
// page of chunks has. The run's length is in the mask word of its first page.
//
//   take   runs_end hands out windows, each to one thread, by one subtraction. If a window is not free, or none is left below runs_end, the
//          thread searches the whole heap for pages that look free. It claims them while it holds a lock: without the lock, two overlapping
//          claims could both fail. Under the lock, a claim fails if a small request or the claim of a window takes one of its pages. It
//          then frees its other pages again. A thread that reads the words of these pages before that finds the pages in use, and may
//          therefore find no run.
//   claim  changes the pages from free to run_tail by compare-exchanges, upward. A thread that meets a page that is not free puts back the
//          pages that it has.
//   give   changes the first page from run_head to run_tail, which succeeds in only one of several frees. Then all pages become free, and
//          runs_end is raised.
#pragma once

#include <gpuheap/allocators/scatteralloc/pool.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter {

// The heap's state, in the heap's memory: the pool, and the words and functions for runs. Device, any thread.
template <scatteralloc_config Config, class Parts>
struct heap_state : pool<Config, Parts> {
  using base = pool<Config, Parts>;
  using base::at;
  using index = long long;  // the index of a page; -1: no page

  // The word in memory is runs_end plus this bias. So it never falls below 0, however much threads subtract, and an unsigned fetch_max
  // compares pages correctly.
  static constexpr uint64_t end_bias = uint64_t{1} << 62;

  alignas(128) uint64_t runs_end = end_bias;  // the page below which windows are handed out; stored with end_bias added. A hint
  alignas(128) uint32_t lock = 0;             // 1: held
  census scratch{};                           // used by the host's checks

  // Takes a run of k pages (2 or more), or returns nullptr.
  [[nodiscard]] GPUHEAP_COLD void* take_run(uint64_t k) {
    index const num_pages = base::there().pages();
    if (k > static_cast<uint64_t>(num_pages)) return nullptr;
    index const n = static_cast<index>(k);
    index first = take_next_window(n, num_pages);
    if (first < 0) first = search_runs(n, num_pages);
    if (first < 0) return nullptr;
    auto const head = static_cast<uint32_t>(first);
    // relaxed, both: threads learn the length from the program, with the pointer. A search reads the state only to see that the page is in
    // use, which it was before, too.
    simt::global_ref<uint32_t>{at.masks[head]}.store(static_cast<uint32_t>(k), simt::relaxed);
    at.state(head).ref().store(slab_word::of(run_head, 1).bits, simt::relaxed);
    return at.page_at(head);
  }

  // Frees the run that begins at `head`, if the word of that page still is that of a run_head. Returns whether it was. A fence must have
  // released the owner's accesses before.
  [[nodiscard]] GPUHEAP_COLD bool give_run(uint32_t head) {
    slab_word seen = slab_word::of(run_head, 1);
    // relay: comes after that fence, and before the stores below.
    if (!at.state(head).ref().compare_exchange(seen.bits, slab_word::of(run_tail, 1).bits, simt::relay, simt::relaxed)) return false;
    uint32_t const k = length_of(head);
    // relaxed: the fence in give_pages() comes before the page is free again.
    simt::global_ref<uint32_t>{at.masks[head]}.store(0, simt::relaxed);
    give_pages(head, k);
    // relaxed: a hint.
    simt::global_ref<uint64_t>{runs_end}.fetch_max(end_bias + head + k, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (uint32_t r = head / Config.region_pages; r <= (head + k - 1) / Config.region_pages; ++r) base::room_in_region(r);
    return true;
  }

  // Pages of the run that begins at `head`.
  [[nodiscard]] GPUHEAP_FN uint32_t length_of(uint32_t head) const {
    return simt::global_ref<uint32_t>{at.masks[head]}.load(simt::relaxed);  // relaxed: stored before the program got the pointer
  }

 protected:
  // Claims the next window below runs_end. Returns its first page, or -1.
  [[nodiscard]] GPUHEAP_FN index take_next_window(index n, index num_pages) {
    simt::global_ref<uint64_t> const end{runs_end};
    // relaxed, both: a thread that claims the pages acquires.
    if (static_cast<index>(end.load(simt::relaxed) - end_bias) < n) return -1;
    auto const mine = static_cast<index>(end.fetch_sub(static_cast<uint64_t>(n), simt::relaxed) - end_bias);
    if (mine < n || mine > num_pages || first_taken(mine - n, n) != mine) return -1;
    return claim(mine - n, n) == mine ? mine - n : -1;
  }

  // Claims any n adjacent pages: searches from runs_end down, and then from the heap's end down to runs_end. Returns the first page, or -1.
  [[nodiscard]] GPUHEAP_FN index search_runs(index n, index num_pages) {
    // relaxed: a hint.
    auto end = static_cast<index>(simt::global_ref<uint64_t>{runs_end}.load(simt::relaxed) - end_bias);
    if (end > num_pages) end = num_pages;
    if (end < 0) end = 0;
    index first = search_between(n, 0, end);
    // This search covers the windows that reach beyond runs_end.
    if (first < 0) first = search_between(n, end - n + 1 > 0 ? end - n + 1 : 0, num_pages);
    return first;
  }
  // Claims the highest n adjacent pages inside lowest .. end - 1. Returns the first of them, or -1.
  [[nodiscard]] GPUHEAP_FN index search_between(index n, index lowest, index end) {
    // Ends: `first` falls.
    GPUHEAP_NO_UNROLL
    for (index first = end - n; first >= lowest;) {
      index taken = first_taken(first, n);
      if (taken == first + n) taken = claim_alone(first, n);
      if (taken == first + n) {
        simt::global_ref<uint64_t>{runs_end}.store(end_bias + static_cast<uint64_t>(first), simt::relaxed);  // relaxed: a hint
        return first;
      }
      // `taken` is the lowest page of the window that is in use: no window with it is free.
      first = taken - n;
    }
    return -1;
  }

  // The first page of first .. first + n - 1 that is not free, or first + n.
  [[nodiscard]] GPUHEAP_FN index first_taken(index first, index n) const {
    GPUHEAP_NO_UNROLL
    for (index i = 0; i < n; i += 4) {
      unsigned in_use = 0;
      // The four loads are in flight together.
      for (unsigned j = 0; j < 4; ++j) {
        index const page = first + (i + j < n ? i + j : n - 1);
        in_use |= (at.state(static_cast<uint32_t>(page)).look().is_free() ? 0u : 1u) << j;
      }
      // Loads that would lie beyond the window's end have read its last page instead.
      if (in_use != 0) return first + (i + simt::lowest_bit(in_use) < n ? i + simt::lowest_bit(in_use) : n - 1);
    }
    return first + n;
  }

  // Claims the pages first .. first + n - 1. Returns first + n. If a page is not free, returns that page, and the caller has none of the
  // pages.
  [[nodiscard]] GPUHEAP_FN index claim(index first, index n) const {
    index page = first;
    GPUHEAP_NO_UNROLL
    for (; page != first + n; ++page) {
      auto const state = at.state(static_cast<uint32_t>(page));
      slab_word seen = state.look();
      bool mine = false;
      // Ends: if a pass does not end the loop, another thread has changed the word first: it has opened or freed the page.
      GPUHEAP_NO_UNROLL
      while (!mine && seen.is_free()) mine = state.open(seen, run_tail, 1, false);
      if (!mine) break;
    }
    if (page != first + n && page != first) give_pages(static_cast<uint32_t>(first), static_cast<uint32_t>(page - first));
    return page;
  }
  // claim() under the lock, which one thread at a time holds.
  [[nodiscard]] GPUHEAP_COLD index claim_alone(index first, index n) {
    simt::global_ref<uint32_t> const held{lock};
    simt::back_off pause;
    // Ends: the thread that holds the lock claims n pages at most, and waits for nothing. Threads are scheduled independently,
    // so it goes on even if a diverged lane of its own warp waits here. The work lies inside the loop: after the loop, a lane that has the
    // lock could be made to wait for lanes that are still in the loop. Other threads wait for the holder, so the call is blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with the release below.
      if (held.exchange(1, simt::acquire) == 0) {
        index const page = claim(first, n);
        // release: pairs with the acquire above.
        held.store(0, simt::release);
        return page;
      }
      pause.wait();
    }
  }

  // Makes n pages of a run free.
  GPUHEAP_FN void give_pages(uint32_t first, uint32_t n) const {
    // release: publishes this thread's accesses to the pages, and those that it has acquired. Pairs with the acquire half of
    // slab_state::open().
    simt::fence(simt::release);
    // relaxed: the fence orders the stores.
    for (uint32_t page = first; page != first + n; ++page) at.state(page).ref().store(0, simt::relaxed);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::scatter
