// The rare parts of free: groups and spans that became free, wrong pointers, and large allocations.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/spans.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The facts that a lane's free has found out, in one register.
struct freed {
  unsigned bits = 0;  // slot : 19 | actor : 5 | from bit 24 on, exact, unclaimed, crossed, found bits, null, last, unlisted : 1 each

  [[nodiscard]] GPUHEAP_HD static constexpr freed of(unsigned slot, unsigned actor, bool exact, bool null, bool crossed, bool found_bits,
                                                     bool unlisted) {
    return {slot | actor << 19 | unsigned{exact} << 24 | unsigned{crossed} << 26 | unsigned{found_bits} << 27 | unsigned{null} << 28 |
            unsigned{unlisted} << 30};
  }
  // The same facts, with those about a slot near the first unclaimed one of an active span.
  [[nodiscard]] GPUHEAP_HD constexpr freed near_end(bool unclaimed, bool last) const {
    return {bits | unsigned{unclaimed} << 25 | unsigned{last} << 29};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned slot() const { return bits & 0x7ffff; }
  // The lane whose atomic set this lane's bit.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned actor() const { return bits >> 19 & 31; }
  // exact: the pointer is the start of a slot. unclaimed: no claim has reached the slot.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_exact() const { return (bits >> 24 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_unclaimed() const { return (bits >> 25 & 1) != 0; }
  // crossed: this lane's atomic made a group entirely free. found bits: this lane's atomic set a bit that was set already.
  [[nodiscard]] GPUHEAP_HD constexpr bool has_crossed() const { return (bits >> 26 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool found_bits() const { return (bits >> 27 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_null() const { return (bits >> 28 & 1) != 0; }
  // last: this free may have left no slot of the span live.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_last() const { return (bits >> 29 & 1) != 0; }
  // unlisted: the slot's word is marked as unlisted, so the free has to list the span.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_unlisted() const { return (bits >> 30 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_wrong() const { return (!is_exact() && !is_null()) || is_unclaimed() || found_bits(); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_rare() const { return is_wrong() || has_crossed() || is_unlisted(); }
};
static_assert(freed::of(shard_word::max_slots - 1, 31, false, false, false, false, false).slot() == shard_word::max_slots - 1 &&
              freed::of(shard_word::max_slots - 1, 31, false, false, false, false, false).actor() == 31 &&
              freed::of(0, 0, true, true, true, true, true).near_end(true, true).slot() == 0);

// The n pages from page `first` on.
struct extent {
  unsigned first = 0, n = 0;
};

struct frees : spans {
  // Finishes a free after the bits of all lanes of `here` are set, and returns its status. `before`: the slot word that this lane's atomic
  // returned; 0 if another lane's atomic set this lane's bit. `due` receives the pages of a large allocation, which the caller must
  // release. All lanes of `here` call.
  template <class Refused>
  GPUHEAP_FN free_status finish_free(lane_mask here, void* p, unsigned page, freed f, uint64_t before, Refused refused, extent& due) {
    uint64_t const theirs = simt::shuffle(here, before, f.actor());
    bool const again = (theirs >> (f.slot() % slot_map::slots_per_word) & 1) != 0 && f.is_exact();
    free_status status = f.is_unclaimed() ? free_status::foreign : again ? free_status::double_free : free_status::done;
    if (!f.is_exact()) status = free_outside_spans(p, due);
    if (status == free_status::foreign || status == free_status::double_free) refused(p, status);
    // This comes before count_groups(): once a group with a bit of an unclaimed slot is counted as full, the span might end.
    if (f.is_unclaimed() && !again) take_back(page, f.slot());
    if (f.is_unlisted()) list_again(page);
    return status;
  }
  // Counts the groups that the frees of the lanes of `here` made entirely free, and ends the spans that are free by this. `page`: the first
  // page of this lane's span. `due` receives the pages of the span that this lane ended, which the caller must release. Returns whether any
  // span ended. All lanes of `here` call.
  GPUHEAP_FN bool count_groups(lane_mask here, unsigned page, freed f, extent& due) {
    if (!simt::any_of(here, f.has_crossed())) return false;
    uint64_t const ended = f.has_crossed() ? count_full_group(page) : 0;
    lane_mask const all_ended = simt::ballot(here, ended != 0);
    if (all_ended == 0) return false;
    clear_ended(here, all_ended, page, ended);
    if (ended != 0) due = {page, forget(page, {ended})};
    return true;
  }

  // Puts a span back into the partial list, after a free found a word of it that is marked as unlisted. If the span has ended meanwhile,
  // the bit in the list is stale.
  GPUHEAP_COLD void list_again(unsigned page) { this->list(span_header{at.header(page).load(simt::relaxed)}.size_class(), page); }

  // Takes back the bit that a free has set for an unclaimed slot. Any thread.
  //
  // Meanwhile another thread may have claimed the slot and freed it rightfully. That free was then reported as a double free, and the slot
  // is lost until the span ends. A free that excludes this would have to load the shard word again before it sets the bit.
  GPUHEAP_FN void take_back(unsigned page, unsigned slot) {
    uint64_t got = 0;
    // relay: as for any take. If the same free also completed a group, that addition comes later, and the sum is the same.
    auto const change = at.slots_of(page).take_mask(slot / slot_map::slots_per_word, uint64_t{1} << (slot % slot_map::slots_per_word), got);
    if (change.group_crossed) at.header(page).fetch_sub(span_header::full_one, simt::relay);
    // The take has cleared the flag that tells a free to list the span.
    if ((change.before & slot_map::unlisted) != 0) list_again(page);
  }

  // Frees a pointer that is not one of a span's slots. `due` receives the pages that the caller must release. Any thread.
  GPUHEAP_FN free_status free_outside_spans(void* p, extent& due) {
    if (p == nullptr) return free_status::null;
    size_t const page = at.page_of(p);
    if (!at.heads_large(p, page, at.tag_of(page))) return free_status::foreign;
    return free_large(static_cast<unsigned>(page), due) ? free_status::done : free_status::double_free;
  }

  // Frees the large allocation that begins at `page`. Returns false if it was freed already. `due` is as above. Any thread.
  GPUHEAP_FN bool free_large(unsigned page, extent& due) {
    uint64_t seen = at.header(page).load(simt::relaxed);
    // Ends: an exchange fails only if another thread frees or resizes the same allocation at the same time, which is that thread's
    // progress.
    GPUHEAP_NO_UNROLL
    for (;;) {
      span_header const h{seen};
      if (!h.is_large()) return false;
      // If a resize is under way, it releases the memory when it ends: see resize_large().
      uint64_t const next = h.is_resizing() ? seen | span_header::freed : span_header::unused(h.generation()).bits;
      // relay: carries the owner's accesses to the next owner. Of several frees of one pointer, the exchange of one succeeds.
      if (at.header(page).compare_exchange(seen, next, simt::relay, simt::relaxed)) break;
    }
    if (!span_header{seen}.is_resizing()) due = end_large(page, span_header{seen}.large_pages());
    return true;
  }
  // Clears the tag of a large allocation of n pages whose header says that it is free. Returns its pages. One thread, which owns them.
  GPUHEAP_FN extent end_large(unsigned page, unsigned n) {
    // relaxed: ordered by the release of the pages.
    tag_of_extent(page, n).store(0, simt::relaxed);
    return {page, n};
  }
  // Releases pages that a free has ended. One thread, which owns them.
  GPUHEAP_FN void release(extent due) { segments().release_pages(due.first, due.n, relocations()); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
