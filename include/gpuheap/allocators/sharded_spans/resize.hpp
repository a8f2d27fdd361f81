// Makes a large allocation longer or shorter without moving it.
//
// An allocation grows by the pages behind it: a claim takes all the pages that it needs, or none. The allocation's header has its length. A
// resize first sets `resizing` in the header, and clears it last. If the program wrongly frees the same pointer at the same time, the free
// leaves a flag in the header, and the resize releases the memory. So only one thread at a time changes which pages the allocation owns.
//
// If an allocation covers all of a segment, it owns the segment as a whole one. Of a segment that it covers in part, it owns pages. So a
// resize may change the state of the segment in which the allocation ended, or ends now: from broken to whole, or from whole to broken.
#pragma once

#include <gpuheap/allocators/sharded_spans/frees.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// Makes a broken segment a whole one. The allocation that begins at `head` owns all of its pages. One thread, which owns the allocation.
GPUHEAP_COLD inline void own_whole_segment(spans* heap, unsigned head, unsigned segment) {
  bool const has_head = head == segment * 64;
  // relaxed, all: no other thread uses the owner's pointer now, and a thread that frees the allocation later is ordered after this one.
  heap->at.segment_tag(segment).store(has_head ? span_tag::large_head : 0, simt::relaxed);
  if (has_head) heap->at.page_tag(head).store(0, simt::relaxed);
  heap->segments().own_whole(segment, heap->relocations());
}

// Moves the end of an allocation of `has` pages, so that it has `n`: changes the state of a segment if need be, and releases the pages that
// the allocation loses. One thread, which owns the allocation.
GPUHEAP_COLD inline void move_end(spans* heap, unsigned head, unsigned has, unsigned n) {
  unsigned const least = n < has ? n : has, most = n < has ? has : n;
  unsigned const segment = (head + least) / 64, first = segment * 64, end = first + 64;  // the segment in which the shorter allocation ends
  // Whether the longer allocation covers all of the segment, and the shorter one a part of it.
  bool const changes = head <= first && first < head + least && end <= head + most;
  if (n > has) {
    if (changes) own_whole_segment(heap, head, segment);
    return;
  }
  unsigned give = head + n;
  if (changes) {
    // relaxed: as in own_whole_segment(). break_up() writes the segment's tag afterwards.
    if (head == first) heap->at.page_tag(head).store(span_tag::large_head, simt::relaxed);
    heap->segments().count_free(end - give);
    heap->segments().break_up(segment, ~simt::low_bits(give - first));
    give = end;
  }
  if (give < head + has) heap->segments().release_pages(give, head + has - give, heap->relocations());
}

// Resizes the allocation that begins at page `head` to `n` pages, n > 0, without moving it. Returns false, and has changed nothing, if the
// pages behind it are not free, or if no allocation begins there. One thread, which owns the allocation. Takes a bounded number of steps,
// and waits for no thread.
[[nodiscard]] GPUHEAP_COLD inline bool resize_large(frees* heap, unsigned head, unsigned n) {
  // relaxed: the owner's pointer comes from the thread that last wrote the header, and is ordered after that store.
  uint64_t seen = heap->at.header(head).load(simt::relaxed);
  span_header const h{seen};
  if (!h.is_large()) return false;
  unsigned const has = h.large_pages();
  if (n == has) return true;
  // relaxed: a thread that frees the allocation later is ordered after this one.
  if (h.is_resizing() || !heap->at.header(head).compare_exchange(seen, seen | span_header::resizing, simt::relaxed, simt::relaxed))
    return false;
  // The claim acquires what the last owners of these pages released. The pages keep the tags and headers of free memory, as pages inside an
  // allocation must.
  bool const done = n < has || heap->segments().claim_at(head + has, n - has, heap->relocations());
  if (done) move_end(heap, head, has, n);
  unsigned const now = done ? n : has;
  seen |= span_header::resizing;
  // relay: releases these changes to a thread that frees the allocation later, and acquires the accesses of a thread that freed it
  // meanwhile.
  if (!heap->at.header(head).compare_exchange(seen, span_header::large_allocation(now, h.generation()).bits, simt::relay, simt::relaxed)) {
    // The allocation was freed meanwhile.
    heap->at.header(head).store(span_header::unused(h.generation()).bits, simt::relaxed);
    heap->release(heap->end_large(head, now));
  }
  return done;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
