// A first-in-first-out queue for any number of producers and consumers. It lies in pages. It takes the pages from a heap, and frees a page
// when all of the page's entries are popped: the queue of KMA's upper layer.
//   R. Spliet, L. Howes, B. R. Gaster, A. L. Varbanescu, "KMA: A Dynamic Memory Manager for OpenCL", GPGPU-7, 2014.
//
//   state    | tail | head | frame 0 {turn, page} | frame 1 | ... | tail, head: the numbers of tickets that pushes and pops have got
//   page     | taken | cells {value, full}, page_entries of them |
//
//   turn     the number q of the page that the frame currently stands for; q % NumFrames is the frame's number. Ticket t lies in page
//            t / page_entries
//   page     the address of the page of a frame; nullptr if the page does not exist yet, or has been freed
//
//   push:    the leader of the lanes that call together gets tickets for all of them. If the page is missing, the leader first takes one
//            from the heap, under a lock. A compare-exchange raises the tail. Then each lane fills its cell.
//   pop:     a compare-exchange raises the head, at most to the tail. Each lane waits until its cell is full, and adds 1 to `taken`. The
//            pop that raises `taken` to page_entries frees the page, and sets the frame's turn to q + NumFrames.
//
// A page serves one turn of its frame only, so each of its cells is filled and emptied once. A thread accesses a page only with a ticket in
// it, and the page is freed when all of its tickets are done. So no thread accesses a freed page. A thread may put a page into a frame
// late, after the turn for which it has taken the page; the page then serves the next turn.
//
// A push that gets no page from the heap, or that finds all frames in use, changes nothing. A pop waits for the push of its ticket, which
// waits for no thread between its ticket and its cell. A thread that needs a new page waits for the thread that takes it from the heap.
//
// Difference from the paper: a page is freed as soon as all of its entries are popped.
#pragma once

#include <gpuheap/heap_ref.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// A view of a state, and of the heap from which the pages come. Device, any thread. T: trivially copyable.
template <class T, class Ref, unsigned PageBytes = 4096, unsigned NumFrames = 1024>
class paged_queue {
  static_assert(simt::is_trivially_copyable_v<T> && NumFrames >= 2);

  struct cell {
    T value;
    simt::uint32_t full;
  };

 public:
  static_assert(alignof(T) <= 16 && alignof(T) <= Ref::allocator_type::traits.min_alignment,
                "gpuheap: the alignment of a paged_queue's values is at most 16, and at most that of its heap's blocks");
  static constexpr unsigned page_entries = (PageBytes - 16) / sizeof(cell);
  static_assert(page_entries >= 1);

  // The state of a queue in memory.
  struct state {
    struct frame {
      simt::uint64_t turn = 0;
      void* page = nullptr;
    };
    alignas(32) simt::uint64_t tail = 0;
    alignas(32) simt::uint64_t head = 0;
    simt::uint32_t lock = 0;  // a spin_lock, held by a thread that takes a page from the heap
    alignas(32) frame frames[NumFrames];
  };

  paged_queue() = default;
  GPUHEAP_HD paged_queue(Ref heap, state* s) : heap_{heap}, state_{s} {}

  // Makes the queue empty. A kernel that runs before those that use the queue calls this once for every i < NumFrames, from any threads.
  // The state's memory may have any contents before.
  GPUHEAP_FN void init(unsigned i) const {
    simt::plain_write(state_->frames[i].turn, simt::uint64_t{i});
    simt::plain_write(state_->frames[i].page, static_cast<void*>(nullptr));
    if (i != 0) return;
    simt::plain_write(state_->tail, simt::uint64_t{0});
    simt::plain_write(state_->head, simt::uint64_t{0});
    simt::plain_write(state_->lock, simt::uint32_t{0});
  }
  // Makes a used queue empty: frees its pages. Called as init() is.
  GPUHEAP_FN void clear(unsigned i) const {
    heap_.free(simt::plain_read(state_->frames[i].page));
    init(i);
  }

  // Pushes `value`. False: the heap has no memory for a page, or all frames are in use.
  GPUHEAP_FN bool try_push(T value) const {
    structures::warp_group group = together(true);
    // Ends: a pass gives tickets to at least one lane of the group, or refuses all.
    GPUHEAP_NO_UNROLL
    while (true) {
      simt::uint64_t first = 0;
      unsigned places = 0;
      if (group.leads()) places = reserve(group.size(), first);
      share(group, places, first);
      if (places == 0) return false;
      unsigned const rank = group.rank();
      if (rank < places) {
        cell& c = cell_of(first + rank);
        simt::plain_write(c.value, value);
        // release: publishes the value. Pairs with take().
        simt::atomic_ref<simt::uint32_t>{c.full}.store(1, simt::release);
        return true;
      }
      group = without_first(group, places);
    }
  }
  // Pops an entry into `value`. False: the queue is empty.
  GPUHEAP_FN bool try_pop(T& value) const {
    structures::warp_group group = together(false);
    // Ends: a pass gives tickets to at least one lane of the group, or refuses all.
    GPUHEAP_NO_UNROLL
    while (true) {
      simt::uint64_t first = 0;
      unsigned entries = 0;
      if (group.leads()) entries = claim(group.size(), first);
      share(group, entries, first);
      if (entries == 0) return false;
      unsigned const rank = group.rank();
      if (rank < entries) {
        value = take(first + rank);
        return true;
      }
      group = without_first(group, entries);
    }
  }

  // The number of tickets of pushes less that of pops. While no push or pop is under way, it is the number of entries.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t size() const {
    simt::uint64_t const head = simt::global_ref<simt::uint64_t>{state_->head}.load(simt::relaxed);
    simt::uint64_t const tail = simt::global_ref<simt::uint64_t>{state_->tail}.load(simt::relaxed);
    return tail > head ? tail - head : 0;
  }

 private:
  using word = simt::global_ref<simt::uint64_t>;
  using frame_type = typename state::frame;
  static constexpr unsigned cells_at = 16;

  // The converged lanes that make the same call on the same queue. Lanes that push and lanes that pop may be converged here.
  [[nodiscard]] GPUHEAP_FN structures::warp_group together(bool to_push) const {
    auto const state = static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(state_));
    return structures::warp_group::of_equal(simt::active_mask(), state | (to_push ? 1u : 0u));
  }
  GPUHEAP_FN static void share(structures::warp_group group, unsigned& count, simt::uint64_t& first) {
    // The other lanes get what the leader acquired.
    simt::sync_warp(group.mask);
    count = group.from_leader(count);
    first = group.from_leader(first);
  }

  // The group without its first n lanes. n is less than its size.
  [[nodiscard]] GPUHEAP_FN static structures::warp_group without_first(structures::warp_group group, unsigned n) {
    return {group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, n))};
  }

  // Waits for the value of this thread's ticket, and returns it.
  [[nodiscard]] GPUHEAP_FN T take(simt::uint64_t ticket) const {
    cell& c = cell_of(ticket);
    simt::back_off pause;
    T value{};
    // Ends: the push of this ticket waits for no thread. Blocking. The value is read inside the loop: behind the loop, a lane that has
    // found its cell full could be made to wait for lanes of its warp that have not.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      // acquire: pairs with try_push().
      if (simt::atomic_ref<simt::uint32_t>{c.full}.load(simt::acquire) != 0) {
        value = simt::plain_read(c.value);
        deallocate(ticket / page_entries);
        done = true;
      } else {
        pause.wait();
      }
    }
    return value;
  }

  [[nodiscard]] GPUHEAP_FN frame_type& frame_of(simt::uint64_t q) const { return state_->frames[q % NumFrames]; }
  // Page q, in which this thread has a ticket, so that the page exists.
  [[nodiscard]] GPUHEAP_FN char* page_of(simt::uint64_t q) const {
    // acquire: pairs with the release in fetch_page(). A pop also sees the page through the tail.
    return static_cast<char*>(simt::atomic_ref<void*>{frame_of(q).page}.load(simt::acquire));
  }
  [[nodiscard]] GPUHEAP_FN cell& cell_of(simt::uint64_t ticket) const {
    return reinterpret_cast<cell*>(page_of(ticket / page_entries) + cells_at)[ticket % page_entries];
  }
  [[nodiscard]] GPUHEAP_FN static simt::atomic_ref<simt::uint32_t> taken(char* page) {
    return simt::atomic_ref<simt::uint32_t>{*reinterpret_cast<simt::uint32_t*>(page)};
  }

  // Gets up to n tickets for pushes into one page, from `first` on. Returns how many.
  [[nodiscard]] GPUHEAP_FN unsigned reserve(unsigned n, simt::uint64_t& first) const {
    word const tail{state_->tail};
    // acquire, here and below: a thread that has seen the tail in a page sees the frame as it was at that time, or later.
    simt::uint64_t seen = tail.load(simt::acquire);
    unsigned got = 0;
    // Ends: a pass that goes on lost the tail to another thread's push. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      simt::uint64_t const q = seen / page_entries, end = (q + 1) * page_entries;
      bool stale = false;
      if (!has_page(q, stale)) {
        if (!stale) return 0;
        seen = tail.load(simt::acquire);
        continue;
      }
      got = end - seen < n ? static_cast<unsigned>(end - seen) : n;
      first = seen;
      // acq_rel: passes the frame's page on to pops. Pairs with claim().
      if (tail.compare_exchange(seen, seen + got, simt::acq_rel, simt::acquire)) return got;
    }
  }
  // Gets up to n tickets for pops out of one page, from `first` on. Returns how many.
  [[nodiscard]] GPUHEAP_FN unsigned claim(unsigned n, simt::uint64_t& first) const {
    word const head{state_->head};
    simt::uint64_t seen = head.load(simt::relaxed);
    // Ends: a pass that goes on lost the head to another thread's pop. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      // acquire: pairs with reserve().
      simt::uint64_t const tail = word{state_->tail}.load(simt::acquire);
      simt::uint64_t const end = (seen / page_entries + 1) * page_entries, behind = tail < end ? tail : end;
      if (behind <= seen) {
        // `seen` may be out of date. The queue is empty only if the head has not changed.
        simt::uint64_t const now = head.load(simt::relaxed);
        if (now == seen) return 0;
        seen = now;
        continue;
      }
      unsigned const got = behind - seen < n ? static_cast<unsigned>(behind - seen) : n;
      first = seen;
      if (head.compare_exchange(seen, seen + got, simt::relaxed, simt::relaxed)) return got;
    }
  }

  // Makes sure that page q exists. False: the heap has no memory for it, its frame is in use for an earlier page, or `stale`: the page
  // existed and is gone.
  [[nodiscard]] GPUHEAP_FN bool has_page(simt::uint64_t q, bool& stale) const {
    frame_type& f = frame_of(q);
    // acquire: pairs with deallocate(), so the frame is seen without the page of the turn before.
    simt::uint64_t const turn = word{f.turn}.load(simt::acquire);
    stale = turn > q;
    if (turn != q) return false;
    simt::atomic_ref<void*> const page{f.page};
    if (page.load(simt::relaxed) != nullptr) return true;  // relaxed: page_of() acquires
    bool there = false;
    // One thread at a time takes a page, since several would take more pages than needed. The thread that holds the lock waits for no lane
    // that waits here: it only calls the heap.
    structures::spin_lock{&state_->lock}.run([&] { there = page.load(simt::relaxed) != nullptr || fetch_page(page); });
    return there;
  }
  // Takes a page from the heap, empties its cells and puts it into the frame. False: the heap has no memory for it.
  [[nodiscard]] GPUHEAP_FN bool fetch_page(simt::atomic_ref<void*> page) const {
    auto* const mine = static_cast<char*>(heap_.malloc(cells_at + page_entries * sizeof(cell)));
    if (mine == nullptr) return false;
    taken(mine).store(0, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != page_entries; ++i) {
      simt::atomic_ref<simt::uint32_t>{reinterpret_cast<cell*>(mine + cells_at)[i].full}.store(0, simt::relaxed);
    }
    // release: publishes the empty cells. Pairs with page_of().
    page.store(mine, simt::release);
    return true;
  }
  // Counts an entry of page q as popped. The last one frees the page.
  GPUHEAP_FN void deallocate(simt::uint64_t q) const {
    char* const page = page_of(q);
    // acq_rel: the thread that pops the last entry frees the page after all other pops are done with it.
    if (taken(page).fetch_add(1, simt::acq_rel) + 1 != page_entries) return;
    frame_type& f = frame_of(q);
    simt::atomic_ref<void*>{f.page}.store(nullptr, simt::relaxed);
    heap_.free(page);
    // release: publishes the empty frame. Pairs with has_page().
    word{f.turn}.store(q + NumFrames, simt::release);
  }

  Ref heap_;
  state* state_ = nullptr;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
