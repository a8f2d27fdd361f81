// The life of a span, and the words of a heap that all threads share.
//
//   unused --claimed by a refill--> active --all slots claimed--> full or partial --acquired--> active (reused) --> ... --all free-->
//   unused segment map                     a shard's word                partial list                  a shard's word
//
// An active span belongs to a shard, or to the thread that just took it from one. A full span is in no list: the next free of one of its
// slots puts it into the partial list. While a span moves from one of these places to the next, no thread finds it. Such a move is a
// *relocation*, and relocation_count counts it: a request is refused only after a search that no relocation crossed.
#pragma once

#include <gpuheap/allocators/sharded_spans/layout.hpp>
#include <gpuheap/structures/relocation_count.hpp>
#include <gpuheap/structures/segment_map.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

using simt::lane_mask;
using structures::lazy_relocation;
using structures::relocation_count;
using structures::segment_map;
using structures::warp_group;

// A set of size classes, a bit each: those that may have an active span, or those that may have a partial one. A set bit may be wrong. A
// clear bit is wrong only during a relocation.
struct class_set {
  uint64_t* word = nullptr;

  // consume_release and acq_rel: add() pairs with erase(). Either the second look of the thread that erases finds the span of the thread
  // that adds, or the added bit comes after the erasure.
  GPUHEAP_FN void add(unsigned c) const { simt::global_ref<uint64_t>{*word}.fetch_or(uint64_t{1} << c, simt::consume_release); }
  GPUHEAP_FN void erase(unsigned c) const { simt::global_ref<uint64_t>{*word}.fetch_and(~(uint64_t{1} << c), simt::acq_rel); }
  // relaxed: a hint, or part of a search that ends with relocation_count::read_end().
  [[nodiscard]] GPUHEAP_FN uint64_t load() const { return simt::global_ref<uint64_t>{*word}.load(simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN bool has(unsigned c) const { return (load() >> c & 1) != 0; }
};

// The words that all threads share, and the operations on one span. The control block, in device memory, begins with this struct.
// Out-of-line functions get its address. A reference to a kernel's own view would force that view into a stack frame.
struct alignas(128) spans {
  layout at;
  segment_map map;
  unsigned segments_there = 0;           // segments that have memory, of at.num_segments(). No kernel of a program changes it
  unsigned pages_there = 0;              // the same in pages
  unsigned peak_held = 0;                // the most pages held until segments were last removed
  unsigned divided = 0;                  // the first segments, divided into prepared spans when the heap was made (prepared.hpp)
  alignas(128) unsigned num_free = 0;    // free pages
  alignas(128) unsigned least_free = 0;  // the fewest pages that were ever free
  alignas(128) uint64_t relocation_word = 0;
  alignas(128) uint64_t active_word = 0;                       // bit c: a shard of class c may have a span
  alignas(128) uint64_t partial_word = 0;                      // bit c: class c may have a partial span
  unsigned no_idle_in = ~0u;                                   // the last launch in which a refill looked for an idle span in vain
  alignas(128) unsigned held[size_classes::count]{};           // pages of each class's spans
  alignas(128) unsigned inactive[size_classes::count]{};       // spans of each class that are not active. May be below zero for a moment
  alignas(128) unsigned failed_reuses[size_classes::count]{};  // reuse_failures of each class
  alignas(128) unsigned cursor[size_classes::count]{};         // the page after the partial span that was sampled last

  // The outcomes of searches; see refuse().
  alignas(128) uint64_t refused[size_classes::count]{};     // the relocation count | 1 at each class's last search that found nothing
  alignas(128) uint64_t refused_as[size_classes::count]{};  // the number of that search
  alignas(128) uint64_t searches = 0;                       // searches that have begun
  uint64_t refused_last = 0;                                // the last search for any class that found nothing: {number : 58, class : 6}
  uint64_t refused_large = 0;  // the last search for contiguous pages that found none: {number : 41, pages : 23}

  // Returned by reference, so that each member is loaded where it is used, and none stays in a register across an atomic.
  [[nodiscard]] GPUHEAP_FN segment_map const& segments() const { return map; }
  [[nodiscard]] GPUHEAP_FN relocation_count relocations() { return {&relocation_word}; }
  [[nodiscard]] GPUHEAP_FN class_set active_classes() { return {&active_word}; }
  [[nodiscard]] GPUHEAP_FN class_set partial_classes() { return {&partial_word}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> last_without_idle() { return simt::global_ref<unsigned>{no_idle_in}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> held_pages(unsigned c) { return simt::global_ref<unsigned>{held[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> inactive_spans(unsigned c) { return simt::global_ref<unsigned>{inactive[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> failed_reuses_of(unsigned c) { return simt::global_ref<unsigned>{failed_reuses[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> cursor_of(unsigned c) { return simt::global_ref<unsigned>{cursor[c]}; }

  // Begins a search for memory and returns its number, from 1 on. A search sees every change that came before a search with a smaller
  // number began. So if a search finds nothing, every request that began to search before it may be refused too: at some moment since then,
  // no memory was free. Without this rule, threads that are all to be refused would cross each other's searches, and each would search
  // again after every relocation of another thread.
  [[nodiscard]] GPUHEAP_FN uint64_t begin_search() {
    // acq_rel: the additions are ordered, and with them what each thread did before its own.
    return simt::global_ref<uint64_t>{searches}.fetch_add(1, simt::acq_rel) + 1;
  }
  // Records that a search for class c found nothing. `now`: the relocation count, quiet, and the same before and after the search. `which`:
  // the search's number, or 0 if it has none.
  GPUHEAP_FN void refuse(unsigned c, uint64_t now, uint64_t which) {
    // release, all: a thread that acts on this record acquires what the search saw. Pairs with refused_since() and still_exhausted().
    simt::global_ref<uint64_t>{refused[c]}.store(now | 1, simt::release);
    if (which == 0) return;
    simt::global_ref<uint64_t>{refused_as[c]}.store(which, simt::release);
    simt::global_ref<uint64_t>{refused_last}.store(which << 6 | c, simt::release);
  }
  // The same for n contiguous pages.
  GPUHEAP_FN void refuse_large(unsigned n, uint64_t which) {
    simt::global_ref<uint64_t>{refused_large}.store(which << 23 | n, simt::release);
  }
  // Whether a search that began after search number `which` found nothing for class c, or nothing for a smaller class, whose requests the
  // memory of class c would also have served.
  [[nodiscard]] GPUHEAP_FN bool refused_since(unsigned c, uint64_t which) {
    // acquire, both: pair with refuse().
    uint64_t const last = simt::global_ref<uint64_t>{refused_last}.load(simt::acquire);
    return simt::global_ref<uint64_t>{refused_as[c]}.load(simt::acquire) > which || (last >> 6 > which && (last & 63) <= c);
  }
  // The same for n contiguous pages. The refusal of a slot of n / 2 pages or fewer counts too: of n contiguous free pages, at least half
  // lie in one segment, and the search for the slot would have taken them.
  [[nodiscard]] GPUHEAP_FN bool refused_large_since(unsigned n, uint64_t which) {
    // acquire, both: pair with refuse() and refuse_large().
    uint64_t const large = simt::global_ref<uint64_t>{refused_large}.load(simt::acquire),
                   slots = simt::global_ref<uint64_t>{refused_last}.load(simt::acquire);
    bool const by_slots = slots >> 6 > which && at.large_pages(size_classes::slot_bytes(slots & 63)) * 2 <= n;
    return by_slots || (large >> 23 > which && (large & 0x7fffff) <= n);
  }
  // Whether a page may be free.
  [[nodiscard]] GPUHEAP_FN bool maybe_any_memory() { return segments().maybe_any(); }
  // Whether another search for class c would find nothing either: nothing was relocated since the last search, no span of the class or a
  // larger one is partial, no page is free, and no other class has an active span. One thread.
  GPUHEAP_COLD bool still_exhausted(unsigned c) {
    // relaxed, both: a guess, which mostly says no. An acquire would empty the SM's L1.
    if (simt::global_ref<uint64_t>{refused[c]}.load(simt::relaxed) != (relocations().glance() | 1)) return false;
    // acquire: pairs with refuse().
    uint64_t const then = simt::global_ref<uint64_t>{refused[c]}.load(simt::acquire), now = relocations().read_begin();
    if (then != (now | 1) || !relocation_count::quiet(now)) return false;
    if ((partial_classes().load() & ~simt::low_bits(c)) != 0 || (active_classes().load() & ~(uint64_t{1} << c)) != 0) return false;
    return !maybe_any_memory() && relocations().read_end() == now;
  }

  // ---- the end of a span's use

  // Puts the span at `page` into the partial list of class c. If the span has ended meanwhile, its bit is stale, and the thread that finds
  // the bit clears it.
  GPUHEAP_COLD void list(unsigned c, unsigned page) {
    at.partial_tree(c).set(page);
    partial_classes().add(c);
  }

  // Ends the span if `h` says that it is not active and all of its slots are free. Returns whether it did; the caller then owns the memory,
  // and must release it.
  GPUHEAP_FN bool end_if_empty(unsigned page, span_header h) {
    if (h.is_active() || (h.bits & span_header::slots) == 0) return false;
    if (h.full_groups() != slot_map::groups_for(slot_map::words_for(at.span_slots(h)))) return false;
    // relay: acquires every free of the span. Each was counted in this word, or in a word whose count was counted in this one. If the
    // exchange fails, another thread has made the span active, and makes this test when it deactivates the span.
    uint64_t expected = h.bits;
    return at.header(page).compare_exchange(expected, span_header::unused(h.generation()).bits, simt::relay, simt::relaxed);
  }

  // Counts a group that became entirely free. If all slots of the span are free now, ends the span and returns its header; the caller must
  // release the span. Otherwise returns 0. Any thread.
  GPUHEAP_COLD uint64_t count_full_group(unsigned page) {
    // relay: carries the frees of the group to the thread that ends the span.
    span_header const h{at.header(page).fetch_add(span_header::full_one, simt::relay) + span_header::full_one};
    if (!end_if_empty(page, h)) return 0;
    // relaxed: a hint.
    inactive_spans(h.size_class()).fetch_sub(1, simt::relaxed);
    return h.bits;
  }

  // An ended span is released in three steps: clear_metadata() by all lanes of `mask`, which name the same span; after a barrier that
  // orders the other lanes' stores before it, forget() by one of them; then segment_map::release_pages() by that lane.
  GPUHEAP_FN void clear_metadata(lane_mask mask, unsigned page, span_header h) {
    warp_group const g{mask};
    at.slots_of(page).clear(at.span_slots(h), g.rank(), g.size());
    clear_tags(page, h.of_segments(), g.rank(), h.length(), g.size());
  }
  // The second step. Returns the number of the span's pages, which the caller must release.
  GPUHEAP_COLD unsigned forget(unsigned page, span_header h) {
    // No thread may find the span in the partial list any more, if it is there. The memory's next use lists a span only after this release.
    at.partial_tree(h.size_class()).erase(page);
    return give_up(h.length(), h.of_segments(), h.size_class());
  }
  GPUHEAP_FN void clear_tags(unsigned page, bool of_segments, unsigned from, unsigned to, unsigned step) {
    auto const tags = at.unit_tags(page, of_segments);
    // relaxed: ordered by the release of the memory.
    GPUHEAP_NO_UNROLL
    for (unsigned i = from; i < to; i += step) tags[i].store(0, simt::relaxed);
  }
  // Writes the tags of a span's units. relaxed: the tags are published with the span. Only a thread whose pointer is not live can read an
  // old tag.
  GPUHEAP_FN void write_tags(unsigned page, bool of_segments, span_tag first, unsigned length) {
    auto const tags = at.unit_tags(page, of_segments);
    span_tag::word tag = first.bits;
    unsigned i = 0;
    // Ends: `i` rises, by eight units a pass.
    GPUHEAP_NO_UNROLL
    for (; i + 8 <= length; i += 8) {
      for (unsigned j = 0; j < 8; ++j, tag += span_tag::one_further) tags[i + j].store(tag, simt::relaxed);
    }
    GPUHEAP_NO_UNROLL
    for (; i < length; ++i, tag += span_tag::one_further) tags[i].store(tag, simt::relaxed);
  }
  // Counts `length` units of class c as held no more. Returns the number of their pages.
  GPUHEAP_FN unsigned give_up(unsigned length, bool of_segments, unsigned c) {
    unsigned const pages = of_segments ? length << at.lg_pages : length;
    // relaxed: a hint.
    held_pages(c).fetch_sub(pages, simt::relaxed);
    return pages;
  }
  // The tag that says that a large allocation of n pages begins at `page`: the segment's if the allocation has the whole segment.
  [[nodiscard]] GPUHEAP_FN simt::global_ref<span_tag::word> tag_of_extent(unsigned page, unsigned n) const {
    return page % 64 == 0 && n >= 64 ? at.segment_tag(page / 64) : at.page_tag(page);
  }
  // Clears the metadata of the spans that the lanes of `ended`, a subset of `here`, have ended: all lanes of `here` together clear one span
  // after the other. All of them call, each on the heap of its own pointer. `page` and `header` name the span that the calling lane ended;
  // that lane then calls forget().
  GPUHEAP_FN void clear_ended(lane_mask here, lane_mask ended, unsigned page, uint64_t header) {
    GPUHEAP_NO_UNROLL
    for (; ended != 0; ended &= ended - 1) {
      unsigned const lane = simt::lowest_bit(ended);
      auto* const theirs = reinterpret_cast<spans*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      theirs->clear_metadata(here, simt::shuffle(here, page, lane), {simt::shuffle(here, header, lane)});
    }
    simt::sync_warp(here);
  }

  // Makes a span inactive: subtracts `subtract`, which includes the flag `active`, from its header. Then releases the span if all of its
  // slots are free, and lists it otherwise. `put_on_list` false: all words of the span are marked as unlisted, so it is listed only if its
  // header says `relist`. The flag says that a free has listed the span meanwhile, and that a refill has taken it from the list. One
  // thread, during a relocation.
  GPUHEAP_COLD void deactivate(unsigned page, uint64_t subtract, bool put_on_list) {
    // relay: every take of the span's slots was counted before, by this thread or by one whose account() this thread acquired.
    span_header const h{at.header(page).fetch_sub(subtract, simt::relay) - subtract};
    if (end_if_empty(page, h)) {
      clear_metadata(lane_mask{1} << simt::lane_id(), page, h);
      segments().release_pages(page, forget(page, h), relocations());
      return;
    }
    // relaxed: a hint.
    inactive_spans(h.size_class()).fetch_add(1, simt::relaxed);
    if (put_on_list || h.must_relist()) list(h.size_class(), page);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
