// Making a large allocation longer or shorter where it is.
//
// The pages behind it are claimed like any others: all of those wanted or none. The allocation's length is in its header. A resize binds
// the header first and unbinds it last; a free of the same pointer at the same time, which is the program's mistake, leaves a flag in a
// bound header, and the resize then gives the memory back. So one thread at a time changes what the allocation owns.
//
// An extent owns a segment that it covers entirely as a whole one. So the segment in which the allocation ended, or ends now, changes hands
// with itself: pages of a broken segment become a whole one, or the other way round.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// An allocation that begins at `head` has all pages of this segment, which was broken up: the segment is
// owned as a whole one from now on. One thread, which owns the allocation.
GPUHEAP_COLD inline void own_whole_segment(spans* heap, unsigned head, unsigned segment) {
  bool const has_head = head == segment * 64;
  // relaxed, all: the owner's pointer is no other thread's, and whoever frees the allocation got it from this one.
  heap->at.segment_tag(segment).store(has_head ? span_tag::large_head : 0, simt::relaxed);
  if (has_head) heap->at.page_tag(head).store(0, simt::relaxed);
  heap->segments().own_whole(segment, heap->relocations());
}

// Of an allocation that had `has` pages and has `n`: makes its last segment the one or the other, and gives back what it no longer has.
// Likewise.
GPUHEAP_COLD inline void move_end(spans* heap, unsigned head, unsigned has, unsigned n) {
  unsigned const least = n < has ? n : has, most = n < has ? has : n;
  unsigned const segment = (head + least) / 64, first = segment * 64, end = first + 64;  // in which the shorter one ends
  // The longer one has all of it, and the shorter one some.
  bool const changes = head <= first && first < head + least && end <= head + most;
  if (n > has) {
    if (changes) own_whole_segment(heap, head, segment);
    return;
  }
  unsigned give = head + n;
  if (changes) {
    // relaxed: as above; the segment's own tag is written after it, and releases nothing.
    if (head == first) heap->at.page_tag(head).store(span_tag::large_head, simt::relaxed);
    heap->segments().count_free(end - give);
    heap->segments().break_up(segment, ~simt::low_bits(give - first));
    give = end;
  }
  if (give < head + has) heap->segments().release_extent(give, head + has - give, heap->relocations());
}

// Makes the allocation that begins at page `head` one of `n` pages, n > 0, in place. False, and nothing has changed: the pages behind it
// are not free, or it is no allocation any more. One thread, which owns the allocation. Ends: a bounded number of steps, none of which
// waits.
[[nodiscard]] GPUHEAP_COLD inline bool resize_large(frees* heap, unsigned head, unsigned n) {
  // relaxed: the owner's pointer came with what was last written here.
  uint64_t seen = heap->at.header(head).load(simt::relaxed);
  span_header const h{seen};
  if (!h.is_large()) return false;
  unsigned const has = h.large_pages();
  if (n == has) return true;
  // relaxed: whoever frees the allocation got the pointer from this thread.
  if (h.is_active() || !heap->at.header(head).compare_exchange(seen, seen | span_header::active, simt::relaxed, simt::relaxed))
    return false;
  // Acquires what the last owners of these pages released. They carry neither tags nor headers: those of free memory, as they must be.
  bool const done = n < has || heap->segments().claim_at(head + has, n - has, heap->relocations());
  if (done) move_end(heap, head, has, n);
  unsigned const now = done ? n : has;
  seen |= span_header::active;
  // relay: passes on what was done here to a thread that frees the allocation, and acquires what such a thread did before.
  if (!heap->at.header(head).compare_exchange(seen, span_header::large_allocation(now, h.generation()).bits, simt::relay, simt::relaxed)) {
    // A free came meanwhile.
    heap->at.header(head).store(span_header::unused(h.generation()).bits, simt::relaxed);
    heap->release_large(head, now);
  }
  return done;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
