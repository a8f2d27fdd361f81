// The rare parts of free: what a free leads to beyond its bit, wrong pointers, allocations of whole segments.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_runs/runs.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

struct frees : runs {
  // A free found the run unlisted. Should it have ended meanwhile, what is listed is nothing to those who look.
  GPUHEAP_COLD void list_again(unsigned page) { this->list(run_header{at.header(page).load(simt::relaxed)}.size_class(), page); }

  // The slot was never handed out, and a free has set its bit: takes that back. Any thread.
  //
  // Should the slot have been drawn and freed rightfully in between, that free was told that it came second, and the slot is lost until the
  // run ends: the price of a free that checks without a trip of its own.
  GPUHEAP_COLD void take_back(unsigned page, unsigned slot) {
    uint64_t got = 0;
    // handed_on: as for any take. A crossing that the free made itself is counted afterwards, which comes to the same.
    auto const change = at.slots_of(page).take_mask(slot / slot_map::slots_per_word, uint64_t{1} << (slot % slot_map::slots_per_word), got);
    if (change.group_crossed) at.header(page).fetch_sub(run_header::full_one, simt::handed_on);
    // The take has dropped the flag by which a free would learn that it must list the run.
    if ((change.before & slot_map::unlisted) != 0) list_again(page);
  }

  // Frees a pointer that is not one of a run's slots. Any thread.
  GPUHEAP_COLD free_status free_outside_runs(void* p) {
    if (p == nullptr) return free_status::null;
    size_t const page = at.page_of(p);
    if (at.tag_of(page).tag.bits != run_tag::large_head) return free_status::foreign;
    unsigned const s = static_cast<unsigned>(page >> at.lg_pages);
    if (p != at.address(s << at.lg_pages, 0, 0)) return free_status::foreign;
    return free_large(s) ? free_status::done : free_status::double_free;
  }

  // Frees the large allocation whose head is segment s. False: it was freed already.
  GPUHEAP_FN bool free_large(unsigned s) {
    unsigned const page = s << at.lg_pages;
    uint64_t seen = at.header(page).load(simt::relaxed);
    if (!run_header{seen}.is_large()) return false;
    unsigned const n = run_header{seen}.large_segments();
    // acq_rel: of several frees of the same pointer, one wins.
    if (!at.header(page).compare_exchange(seen, run_header::unused(run_header{seen}.generation()).bits, simt::handed_on, simt::relaxed))
      return false;
    // relaxed: before release_segments()'s release.
    at.segment_tag(s).store(0, simt::relaxed);
    segments().release_segments(s, n);
    return true;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
