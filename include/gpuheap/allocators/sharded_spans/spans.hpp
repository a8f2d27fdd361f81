// The life of a span: the heap's shared words, how a span ends, how its freed slots are found again.
//
//   free memory --claim--> bound (fresh) --all claimed--> listed <--> bound (reuse) --> ... --all slots freed--> free memory
//    segment map           shard word                  class list   shard word
//
// Between two stages a span is in nobody's sight; those moves are bracketed in `relocation`, and a request is refused only after a search
// that no move crossed.
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

// Classes that may have something, a bit each. Exact in the sense of bitmap_tree's summary: a cleared bit is restored if the second look
// finds something.
struct class_set {
  uint64_t* word = nullptr;

  // Acquiring and releasing, both: add() pairs with drop(): either the drop's second look sees what was added, or this bit comes after the
  // drop.
  GPUHEAP_FN void add(unsigned c) const { simt::global_ref<uint64_t>{*word}.fetch_or(uint64_t{1} << c, simt::consume_release); }
  GPUHEAP_FN void erase(unsigned c) const { simt::global_ref<uint64_t>{*word}.fetch_and(~(uint64_t{1} << c), simt::acq_rel); }
  // relaxed: a hint, or part of a search that ends with relocation_count::read_end().
  [[nodiscard]] GPUHEAP_FN uint64_t load() const { return simt::global_ref<uint64_t>{*word}.load(simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN bool has(unsigned c) const { return (load() >> c & 1) != 0; }
};

// The words that all threads share, and what can be done with one span. In device memory: out-of-line functions get its address, never a
// view by reference, so no kernel pays a stack frame for them.
struct alignas(128) spans {
  layout at;
  segment_map map;
  unsigned segments_there = 0;           // segments that the heap has; at.num_segments() is how many there is room for. Set by the host
  unsigned pages_there = 0;              // and pages. Set by the host
  unsigned peak_held = 0;                // pages that were ever held before segments were given up. Set by the host
  alignas(128) unsigned num_free = 0;    // pages
  alignas(128) unsigned least_free = 0;  // pages
  alignas(128) uint64_t relocation_word = 0;
  alignas(128) uint64_t active_word = 0;                       // bit c: a shard of class c may have a span
  alignas(128) uint64_t partial_word = 0;                      // bit c: a span of class c may be listed
  alignas(128) unsigned held[size_classes::count]{};           // pages of each class's spans
  alignas(128) unsigned inactive[size_classes::count]{};       // spans of each class that are not bound; for a moment, below zero
  alignas(128) unsigned failed_reuses[size_classes::count]{};  // how often the last launch found no partial span worth a reuse
  alignas(128) unsigned cursor[size_classes::count]{};         // the page behind the last partial span that was looked at

  alignas(128) uint64_t refused[size_classes::count]{};     // the moves word of the last search for each class that found nothing, + 1
  alignas(128) uint64_t refused_as[size_classes::count]{};  // which search that was
  alignas(128) uint64_t searches = 0;                       // begun so far
  uint64_t refused_last = 0;                                // which of the searches for any class that found nothing : 58 | its class : 6
  uint64_t refused_large = 0;                               // which search for contiguous pages found none : 41 | how many : 23

  // By reference: its parts are read where they are used, and none is kept in a register across an atomic.
  [[nodiscard]] GPUHEAP_FN segment_map const& segments() const { return map; }
  [[nodiscard]] GPUHEAP_FN relocation_count relocations() { return {&relocation_word}; }
  [[nodiscard]] GPUHEAP_FN class_set active_classes() { return {&active_word}; }
  [[nodiscard]] GPUHEAP_FN class_set partial_classes() { return {&partial_word}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> held_pages(unsigned c) { return simt::global_ref<unsigned>{held[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> inactive_spans(unsigned c) { return simt::global_ref<unsigned>{inactive[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> failed_reuses_of(unsigned c) { return simt::global_ref<unsigned>{failed_reuses[c]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<unsigned> cursor_of(unsigned c) { return simt::global_ref<unsigned>{cursor[c]}; }

  // Begins a search for memory, and says which it is: 1 or more. Searches are numbered in the order in which they begin, and each sees what
  // came before the beginning of those before it. So if one finds nothing, all who had begun to search before it began may be refused as
  // well: at a moment since then, nothing was there. Without that, threads that are all to be refused cross each other's searches, and each
  // searches as often as all of them move something.
  [[nodiscard]] GPUHEAP_FN uint64_t begin_search() {
    // acq_rel: as said.
    return simt::global_ref<uint64_t>{searches}.fetch_add(1, simt::acq_rel) + 1;
  }
  // Search number `which`, or 0 for one without a number, for class c, found nothing, and `now`, which is quiet, is what the moves were
  // before and after it.
  GPUHEAP_FN void refuse(unsigned c, uint64_t now, uint64_t which) {
    // release, all: whoever believes it has seen what the search saw.
    simt::global_ref<uint64_t>{refused[c]}.store(now | 1, simt::release);
    if (which == 0) return;
    simt::global_ref<uint64_t>{refused_as[c]}.store(which, simt::release);
    simt::global_ref<uint64_t>{refused_last}.store(which << 6 | c, simt::release);
  }
  // The same for n contiguous pages.
  GPUHEAP_FN void refuse_large(unsigned n, uint64_t which) {
    simt::global_ref<uint64_t>{refused_large}.store(which << 23 | n, simt::release);
  }
  // Whether a search that began after search number `which` found nothing for class c. Nothing for a smaller class is nothing for this one.
  [[nodiscard]] GPUHEAP_FN bool refused_since(unsigned c, uint64_t which) {
    // acquire, both: pair with refuse().
    uint64_t const last = simt::global_ref<uint64_t>{refused_last}.load(simt::acquire);
    return simt::global_ref<uint64_t>{refused_as[c]}.load(simt::acquire) > which || (last >> 6 > which && (last & 63) <= c);
  }
  // The same for n contiguous pages. A search for slots would have taken pages for one of them, which half of an extent has in one segment.
  [[nodiscard]] GPUHEAP_FN bool refused_large_since(unsigned n, uint64_t which) {
    // acquire, both: as before.
    uint64_t const large = simt::global_ref<uint64_t>{refused_large}.load(simt::acquire),
                   slots = simt::global_ref<uint64_t>{refused_last}.load(simt::acquire);
    bool const by_slots = slots >> 6 > which && at.large_pages(size_classes::slot_bytes(slots & 63)) * 2 <= n;
    return by_slots || (large >> 23 > which && (large & 0x7fffff) <= n);
  }
  // Whether any memory may be free.
  [[nodiscard]] GPUHEAP_COLD bool maybe_any_memory() { return segments().maybe_any(); }
  // Whether another search for class c would find nothing either: nothing has moved since the last one, no span of the class or a larger
  // one is listed, no memory is free, and no other class has a span that might be closed or claimed from. One thread.
  GPUHEAP_COLD bool still_exhausted(unsigned c) {
    // relaxed, both: a guess first, as an acquire costs who comes here its L1.
    if (simt::global_ref<uint64_t>{refused[c]}.load(simt::relaxed) != (relocations().glance() | 1)) return false;
    // acquire: pairs with refuse().
    uint64_t const then = simt::global_ref<uint64_t>{refused[c]}.load(simt::acquire), now = relocations().read_begin();
    if (then != (now | 1) || !relocation_count::quiet(now)) return false;
    if ((partial_classes().load() & ~simt::low_bits(c)) != 0 || (active_classes().load() & ~(uint64_t{1} << c)) != 0) return false;
    return !maybe_any_memory() && relocations().read_end() == now;
  }

  // ---- the end of a span's use

  // Puts a span where adopters look. The span may have been released meanwhile: a stale bit is dropped by whoever looks.
  GPUHEAP_FN void list(unsigned c, unsigned page) {
    at.partial_tree(c).set(page);
    partial_classes().add(c);
  }

  // Whether `h` says that every slot is free and nobody hands any out; if so, tries to end the span. True: the caller owns the memory and
  // must release it.
  GPUHEAP_FN bool end_if_empty(unsigned page, span_header h) {
    if (h.is_active() || (h.bits & span_header::slots) == 0) return false;
    if (h.full_groups() != slot_map::groups_for(slot_map::words_for(at.span_slots(h)))) return false;
    // relay: acquires every free of the span (they all counted on this word or on one that was handed on to it). If it fails, the header
    // has a new adopter, who makes the same test when done.
    uint64_t expected = h.bits;
    return at.header(page).compare_exchange(expected, span_header::unused(h.generation()).bits, simt::relay, simt::relaxed);
  }

  // A group of the span became entirely free. Returns the header if the span did too: it is then the caller's to release; else 0. Any
  // thread.
  GPUHEAP_COLD uint64_t count_full_group(unsigned page) {
    // relay: carries the frees of the group to whoever ends the span.
    span_header const h{at.header(page).fetch_add(span_header::full_one, simt::relay) + span_header::full_one};
    if (!end_if_empty(page, h)) return 0;
    // relaxed: a hint.
    inactive_spans(h.size_class()).fetch_sub(1, simt::relaxed);
    return h.bits;
  }

  // An ended span's memory becomes free again in two steps: wipe(), by all lanes of `mask` with the same span; then release(), by one of
  // them, after a barrier that orders the others' stores before its release.
  GPUHEAP_FN void clear_metadata(lane_mask mask, unsigned page, span_header h) {
    warp_group const g{mask};
    at.slots_of(page).clear(at.span_slots(h), g.rank(), g.size());
    clear_tags(page, h.of_segments(), g.rank(), h.length(), g.size());
  }
  // Returns the segment for which rejoin() is due, or segment_map::none.
  GPUHEAP_COLD unsigned release(unsigned page, uint64_t header) {
    span_header const h{header};
    // Listed or not, nobody shall look here again. The next use's listing comes after the memory is given back.
    at.partial_tree(h.size_class()).erase(page);
    return release_memory(page, h.length(), h.of_segments(), h.size_class());
  }
  GPUHEAP_FN void clear_tags(unsigned page, bool of_segments, unsigned from, unsigned to, unsigned step) {
    auto const tags = at.unit_tags(page, of_segments);
    // Ends: one pass per unit. relaxed: ordered by the release that gives the memory back.
    GPUHEAP_NO_UNROLL
    for (unsigned i = from; i < to; i += step) tags[i].store(0, simt::relaxed);
  }
  // Tags the units of a span. relaxed: published with the span, or read as well as what was there before.
  GPUHEAP_FN void write_tags(unsigned page, bool of_segments, span_tag first, unsigned length) {
    auto const tags = at.unit_tags(page, of_segments);
    span_tag::word tag = first.bits;
    unsigned i = 0;
    // Ends: one pass per eight units.
    GPUHEAP_NO_UNROLL
    for (; i + 8 <= length; i += 8) {
      // Ends: eight passes.
      for (unsigned j = 0; j < 8; ++j, tag += span_tag::one_further) tags[i + j].store(tag, simt::relaxed);
    }
    // Ends: one pass per unit that is left.
    GPUHEAP_NO_UNROLL
    for (; i < length; ++i, tag += span_tag::one_further) tags[i].store(tag, simt::relaxed);
  }
  GPUHEAP_FN unsigned release_memory(unsigned page, unsigned length, bool of_segments, unsigned c) {
    // relaxed: a hint.
    held_pages(c).fetch_sub(of_segments ? length << at.lg_pages : length, simt::relaxed);
    if (!of_segments) return release_pages(page, length);
    release_segments(page >> at.lg_pages, length);
    return segment_map::none;
  }
  // The tag that says that a large allocation of n pages begins at `page`: the segment's, if it has all of that.
  [[nodiscard]] GPUHEAP_FN simt::global_ref<span_tag::word> tag_of_extent(unsigned page, unsigned n) const {
    return page % 64 == 0 && n >= 64 ? at.segment_tag(page / 64) : at.page_tag(page);
  }
  // segment_map's put_leaf(), release_pages() and rejoin(), step by step: each forgets what it knows of the trees, so that a kernel
  // which frees needs few registers.
  GPUHEAP_COLD void release_segments(unsigned first, unsigned n) {
    segments().count_free(n << layout::lg_pages);
    // Ends: one pass per leaf.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      put_leaf(first, n);
      // Worked out again: what is kept over the call takes a register of every kernel that frees.
      unsigned const in_leaf = 64 - first % 64, done = n < in_leaf ? n : in_leaf;
      first += done;
      n -= done;
    }
  }
  // The pages of a large allocation, end by end.
  GPUHEAP_FN void release_extent(unsigned page, unsigned n) {
    // Ends: one pass for the whole segments, and one per end.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      unsigned const in = page % 64, whole = in == 0 ? n / 64 : 0, done = whole != 0 ? whole * 64 : n < 64 - in ? n : 64 - in;
      if (whole != 0) {
        release_segments(page / 64, whole);
      } else if (unsigned const due = release_pages(page, done); due != segment_map::none) {
        rejoin(due);
      }
      page += done;
      n -= done;
    }
  }
  GPUHEAP_COLD void put_leaf(unsigned first, unsigned n) { (void)segments().put_leaf(first, n); }
  GPUHEAP_COLD unsigned release_pages(unsigned page, unsigned n) {
    bool const all = segments().put_pages(page, n);
    make_broken(page >> at.lg_pages);
    return all ? page >> at.lg_pages : segment_map::none;
  }
  GPUHEAP_COLD void rejoin(unsigned s) {
    relocations().begin();
    if (take_all_pages(s)) {
      make_whole(s);
      if (erase_broken(s) && segments().has_pages(s)) make_broken(s);
    }
    relocations().end();
  }
  GPUHEAP_COLD bool take_all_pages(unsigned s) { return segments().take_all_pages(s); }
  GPUHEAP_COLD void make_whole(unsigned s) { segments().make_whole(s); }
  GPUHEAP_COLD bool erase_broken(unsigned s) { return at.broken_tree().take(s); }
  GPUHEAP_COLD void make_broken(unsigned s) { at.broken_tree().set(s); }

  // Spans ended by some lanes of a warp, `ended` a subset of `here`: all lanes wipe them one by one. All lanes of `here` call, each with
  // its own heap's words; `page` and `header` say what a lane ended, and that lane calls release() afterwards.
  GPUHEAP_FN void clear_ended(lane_mask here, lane_mask ended, unsigned page, uint64_t header) {
    // Ends: one pass per lane of `ended`.
    GPUHEAP_NO_UNROLL
    for (; ended != 0; ended &= ended - 1) {
      unsigned const lane = simt::lowest_bit(ended);
      auto* const theirs = reinterpret_cast<spans*>(simt::shuffle(here, reinterpret_cast<uint64_t>(this), lane));
      theirs->clear_metadata(here, simt::shuffle(here, page, lane), {simt::shuffle(here, header, lane)});
    }
    simt::sync_warp(here);
  }

  // Ends one handing-out of a span: takes `subtract`, which includes `bound`, off its header, then releases the span or lists it; without
  // `put_on_list` it stays off the list, since all its words are marked unlisted, unless a free has listed it meanwhile and that was
  // missed. One thread, during a relocation.
  GPUHEAP_COLD void deactivate(unsigned page, uint64_t subtract, bool put_on_list) {
    // relay: every take of this binding has been counted before (this thread's, or those that it acquired with the last account).
    span_header const h{at.header(page).fetch_sub(subtract, simt::relay) - subtract};
    if (end_if_empty(page, h)) {
      clear_metadata(lane_mask{1} << simt::lane_id(), page, h);
      unsigned const due = release(page, h.bits);
      if (due != segment_map::none) rejoin(due);
      return;
    }
    // relaxed: a hint.
    inactive_spans(h.size_class()).fetch_add(1, simt::relaxed);
    if (put_on_list || h.must_relist()) list(h.size_class(), page);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
