// The spans with which a heap begins, so that its first small launches find slots without a refill.
//
//   | segment 0: 8 KiB | 7 KiB | ... | 1 KiB | segment 1: 896 | 768 | 640 | 512 | ... | 32 | 16 | segment 2, free | segment 3, free | ...
//
// Each size class up to 8 KiB has one span of pages in its first shard, of which no slot is claimed. These are idle spans, as a reset
// leaves them, so the rest of the allocator treats them as such: while memory is low, other classes take them over. The spans of smaller
// classes lie nearer to the free segments. A launch that asks for more slots gets the others from there, so the addresses of its blocks
// stay close together.
#pragma once

#include <gpuheap/allocators/sharded_spans/spans.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// The places of the prepared spans in the first two segments of a heap.
struct prepared_spans {
  static constexpr unsigned segments = 2;
  static constexpr unsigned most_classes = size_classes::class_of(8192) + 1;
  static constexpr unsigned most_slots = 1024;     // slots of a span that serves several launches
  static constexpr unsigned most_bytes = 512;      // bytes of such a slot, at most
  static constexpr unsigned larger_divisor = 16;   // spans of larger slots have 1/this as many
  static constexpr unsigned lg_slots_divisor = 6;  // and none has more slots than a 2^this-th of the bytes of a page

  unsigned classes = 0;  // the classes below this one have a span
  unsigned char page[most_classes]{}, pages[most_classes]{};
  uint64_t used[segments]{};  // a bit for each page of a segment that belongs to a span

  [[nodiscard]] GPUHEAP_HD constexpr unsigned held() const { return simt::popcount(used[0]) + simt::popcount(used[1]); }

  // The spans of a heap of `there` segments with pages of 2^page_shift bytes. A small heap has none: two segments are much of its memory.
  [[nodiscard]] GPUHEAP_HD static constexpr prepared_spans of(unsigned there, unsigned page_shift) {
    prepared_spans all;
    if (page_shift < 12 || there < segments * 4) return all;
    unsigned const by_page = 1u << (page_shift - lg_slots_divisor), many = by_page < most_slots ? by_page : most_slots;
    unsigned end = segments * 64;
    // Ends: `all.classes` rises to `most_classes`.
    for (; all.classes < most_classes; ++all.classes) {
      unsigned const each = size_classes::slot_bytes(all.classes);
      // One slot more than the span is meant to serve: the claim of the last slot has the duty to refill.
      unsigned const slots = (each > most_bytes ? many / larger_divisor : many) + 1,
                     n = (slots * each + (1u << page_shift) - 1) >> page_shift;
      // A span of pages lies in one segment.
      if ((end - 1) % 64 + 1 < n) end -= end % 64;
      end -= n;
      all.page[all.classes] = static_cast<unsigned char>(end);
      all.pages[all.classes] = static_cast<unsigned char>(n);
      all.used[end / 64] |= simt::low_bits(n) << end % 64;
    }
    return all;
  }
};
static_assert(prepared_spans::of(7, 16).classes == 0 && prepared_spans::of(2048, 16).classes == prepared_spans::most_classes &&
              prepared_spans::of(2048, 16).page[0] == 127 && prepared_spans::of(2048, 16).pages[15] == 9);

// Makes the span of class c in a heap that has no other span yet. One thread for each class. relaxed, all: the end of the kernel orders its
// stores before later kernels.
GPUHEAP_FN inline void prepare_span(spans& heap, unsigned c, unsigned page, unsigned pages) {
  layout const& at = heap.at;
  unsigned const num_slots = at.span_slots(c, pages, false);
  at.header(page).fetch_add(span_header::to_new_span(c, pages, false), simt::relaxed);
  at.slots_of(page).prepare(num_slots);
  heap.write_tags(page, false, span_tag::of_slots(c, pages, 0, true), pages);
  at.shard(c, 0).store(shard_word::of_span(page, num_slots).bits, simt::relaxed);
  heap.held_pages(c).store(pages, simt::relaxed);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
