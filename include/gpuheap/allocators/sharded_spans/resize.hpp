// A large allocation becomes longer or shorter in place.
//
// The pages behind it are claimed like any others: all that are wanted or none. Its header has its length. A resize first sets `resizing`
// in the header, and clears it last. If the program frees the same pointer at the same time, which is its mistake, the free leaves a flag
// in the header, and the resize releases the memory. So one thread at a time changes what the allocation owns.
//
// An extent owns a segment that it covers entirely as a whole one. So the segment in which the allocation ended, or ends now, changes its
// state without changing its owner: pages of a broken segment become a whole one, or the other way round.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// Makes a segment that was broken, and of which the allocation that begins at `head` has all pages, one that it owns as a whole. One
// thread, which owns the allocation.
GPUHEAP_COLD inline void own_whole_segment(spans* heap, unsigned head, unsigned segment) {
  bool const has_head = head == segment * 64;
  // relaxed, all: no other thread has the owner's pointer, and a thread that frees the allocation gets the pointer from this one.
  heap->at.segment_tag(segment).store(has_head ? span_tag::large_head : 0, simt::relaxed);
  if (has_head) heap->at.page_tag(head).store(0, simt::relaxed);
  heap->segments().own_whole(segment, heap->relocations());
}

// The allocation had `has` pages and has `n`: brings its last segment into the right state, and releases the pages that it has no more. One
// thread, which owns the allocation.
GPUHEAP_COLD inline void move_end(spans* heap, unsigned head, unsigned has, unsigned n) {
  unsigned const least = n < has ? n : has, most = n < has ? has : n;
  unsigned const segment = (head + least) / 64, first = segment * 64, end = first + 64;  // in which the shorter allocation ends
  // The longer one has all of the segment, the shorter one a part.
  bool const changes = head <= first && first < head + least && end <= head + most;
  if (n > has) {
    if (changes) own_whole_segment(heap, head, segment);
    return;
  }
  unsigned give = head + n;
  if (changes) {
    // relaxed: as above. The segment's own tag is written later, and releases nothing.
    if (head == first) heap->at.page_tag(head).store(span_tag::large_head, simt::relaxed);
    heap->segments().count_free(end - give);
    heap->segments().break_up(segment, ~simt::low_bits(give - first));
    give = end;
  }
  if (give < head + has) heap->segments().release_extent(give, head + has - give, heap->relocations());
}

// Makes the allocation that begins at page `head` one of `n` pages, n > 0, where it is. False, and nothing has changed: the pages behind it
// are not free, or it is not an allocation any more. One thread, which owns the allocation; a bounded number of steps, none of which waits.
[[nodiscard]] GPUHEAP_COLD inline bool resize_large(frees* heap, unsigned head, unsigned n) {
  // relaxed: the owner has its pointer from what was last written here.
  uint64_t seen = heap->at.header(head).load(simt::relaxed);
  span_header const h{seen};
  if (!h.is_large()) return false;
  unsigned const has = h.large_pages();
  if (n == has) return true;
  // relaxed: a thread that frees the allocation gets the pointer from this one.
  if (h.is_resizing() || !heap->at.header(head).compare_exchange(seen, seen | span_header::resizing, simt::relaxed, simt::relaxed))
    return false;
  // Acquires what the last owners of these pages released. Their tags and headers are those of free memory, as they must be.
  bool const done = n < has || heap->segments().claim_at(head + has, n - has, heap->relocations());
  if (done) move_end(heap, head, has, n);
  unsigned const now = done ? n : has;
  seen |= span_header::resizing;
  // relay: releases what was done here to a thread that frees the allocation; acquires what such a thread did before.
  if (!heap->at.header(head).compare_exchange(seen, span_header::large_allocation(now, h.generation()).bits, simt::relay, simt::relaxed)) {
    // The allocation was freed meanwhile.
    heap->at.header(head).store(span_header::unused(h.generation()).bits, simt::relaxed);
    heap->release_large(head, now);
  }
  return done;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
