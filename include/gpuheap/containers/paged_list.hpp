// A list to which threads append entries, and which they read by index. It lies in pages that it takes from a heap: the array list of KMA's
// upper layer.
//   R. Spliet, L. Howes, B. R. Gaster, A. L. Varbanescu, "KMA: A Dynamic Memory Manager for OpenCL", GPGPU-7, 2014.
//
//   state    | size | lock | page 0 | page 1 | ... | page k has first_page_entries << k entries; nullptr: the list has no page k yet
//
//   push:    the leader of the lanes that call together reserves places for all of them. First, under a lock, it takes the missing pages
//            from the heap. Then a compare-exchange raises the size.
//
// So pages never move, an entry keeps its address, and a push that gets no page from the heap changes nothing. A thread that needs a new
// page waits for the thread that takes it from the heap; everything else is lock-free.
//
// Difference from the paper: each page is twice as large as the one before, so that a list needs no directory that could become full.
#pragma once

#include <gpuheap/heap_ref.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The state of a list in memory. Zeros are an empty list.
struct paged_list_state {
  static constexpr unsigned max_pages = 32;
  simt::uint64_t size = 0;
  simt::uint32_t lock = 0;  // a spin_lock, held by a thread that takes a page from the heap
  void* pages[max_pages] = {};
};

// A view of a state, and of the heap from which the pages come. Device, any thread. T: trivially copyable.
template <class T, class Ref>
class paged_list {
  static_assert(simt::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= Ref::allocator_type::traits.min_alignment,
                "gpuheap: the alignment of a paged_list's entries is at most that of its heap's blocks");

 public:
  static constexpr unsigned first_page_entries = 64;  // at least 32, so that the entries of a warp's push lie in two pages at most

  paged_list() = default;
  GPUHEAP_HD paged_list(Ref heap, paged_list_state* state) : heap_{heap}, state_{state} {}

  // Appends an entry. False: the heap has no memory for a page, and this entry is not in the list. The program must order reads of the
  // entry after its push.
  GPUHEAP_FN bool push(T value) const {
    auto const group =
        structures::warp_group::of_equal(simt::active_mask(), static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(state_)));
    simt::uint64_t first = 0;
    unsigned places = 0;
    if (group.leads()) places = reserve(group.size(), first);
    // The other lanes get what the leader acquired.
    simt::sync_warp(group.mask);
    places = group.from_leader(places);
    first = group.from_leader(first);
    if (group.rank() >= places) return false;
    simt::plain_write((*this)[first + group.rank()], value);
    return true;
  }

  // Entry i < size(). The push of the entry must happen before this call.
  [[nodiscard]] GPUHEAP_FN T& operator[](simt::uint64_t i) const {
    unsigned const k = page_of(i);
    // acquire: pairs with the release in has_page().
    auto* const page = static_cast<T*>(simt::atomic_ref<void*>{state_->pages[k]}.load(simt::acquire));
    return page[i - first_of(k)];
  }
  // The number of entries that have a place. Pushes that are still running may not have written theirs yet.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t size() const {
    // relaxed: the program orders reads of an entry after its push.
    return simt::global_ref<simt::uint64_t>{state_->size}.load(simt::relaxed);
  }

  // Frees all pages, which makes the list empty. Called by one thread, while no other thread uses the list.
  GPUHEAP_FN void clear() const {
    GPUHEAP_NO_UNROLL
    for (auto& page : state_->pages) heap_.free(simt::atomic_ref<void*>{page}.exchange(nullptr, simt::relaxed));
    simt::global_ref<simt::uint64_t>{state_->size}.store(0, simt::relaxed);
  }

 private:
  [[nodiscard]] GPUHEAP_FN static constexpr unsigned page_of(simt::uint64_t i) { return simt::highest_bit(i / first_page_entries + 1); }
  [[nodiscard]] GPUHEAP_FN static constexpr simt::uint64_t entries_of(unsigned k) { return simt::uint64_t{first_page_entries} << k; }
  [[nodiscard]] GPUHEAP_FN static constexpr simt::uint64_t first_of(unsigned k) { return entries_of(k) - first_page_entries; }

  // Reserves places for up to n (at most 32) entries, from `first` on. Returns how many: fewer than n if the heap has no page for more.
  [[nodiscard]] GPUHEAP_FN unsigned reserve(unsigned n, simt::uint64_t& first) const {
    simt::global_ref<simt::uint64_t> const size{state_->size};
    // relaxed, all: the size only assigns places to threads.
    simt::uint64_t seen = size.load(simt::relaxed);
    // Ends: a pass that goes on lost the size to another thread's push. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned places = n;
      unsigned const k = page_of(seen);
      if (!has_page(k)) return 0;
      if (page_of(seen + n - 1) != k && !has_page(k + 1)) places = static_cast<unsigned>(first_of(k + 1) - seen);
      first = seen;
      if (size.compare_exchange(seen, seen + places, simt::relaxed, simt::relaxed)) return places;
    }
  }
  // Makes sure that page k exists. False: the heap has no memory for it, or k is too large.
  [[nodiscard]] GPUHEAP_FN bool has_page(unsigned k) const {
    if (k >= paged_list_state::max_pages) return false;
    simt::atomic_ref<void*> const page{state_->pages[k]};
    if (page.load(simt::relaxed) != nullptr) return true;  // relaxed: operator[] acquires
    bool there = false;
    // One thread at a time takes a page, since several would take more pages than needed. A thread that holds the lock waits for no lane
    // that waits here: it only calls the heap.
    structures::spin_lock{&state_->lock}.run([&] {
      if (page.load(simt::relaxed) == nullptr) {
        // release: the allocation of the page comes before accesses to it. Pairs with operator[].
        page.store(heap_.malloc(entries_of(k) * sizeof(T)), simt::release);
      }
      there = page.load(simt::relaxed) != nullptr;
    });
    return there;
  }

  Ref heap_;
  paged_list_state* state_ = nullptr;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
