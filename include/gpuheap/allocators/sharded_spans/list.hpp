// Lists the live blocks of a heap by a kernel over its metadata, as live.hpp counts them. leaks.hpp includes this file.
#pragma once

#include <gpuheap/allocators/sharded_spans/live.hpp>

#if GPUHEAP_HAS_HOST
#include <algorithm>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// Kernel of whole warps, `threads` threads in all: lists the live blocks of the pages [first, end). A warp reads one page's metadata at a
// time.
template <class Spans>
struct list_live {
  Spans* heap;
  unsigned first, end;
  block_info* into;
  uint64_t* count;
  unsigned threads;

  GPUHEAP_FN void operator()(unsigned i) const {
    layout const& at = heap->at;
    // relaxed, here and below: an earlier kernel wrote these words.
    unsigned const there = simt::global_ref<unsigned>{heap->pages_there}.load(simt::relaxed), last = end < there ? end : there;
    GPUHEAP_NO_UNROLL
    for (unsigned page = first + i / simt::warp_lanes; page < last; page += threads / simt::warp_lanes) {
      auto const found = at.tag_of(page);
      if (simt::lane_id() == 0 && begins_large(at, page, found)) {
        span_header const h{at.header(page).load(simt::relaxed)};
        if (h.is_large()) add(at.address(page, 0, 0), large_bytes(at, h));
      }
      list_slots(at, page, found);
    }
  }

 private:
  GPUHEAP_FN void list_slots(layout const& at, unsigned page, layout::tag_found found) const {
    page_words const mine = page_words::of(at, page, found);
    if (mine.num_words == 0) return;
    unsigned const c = mine.size_class;
    unsigned const head = found.of_segments ? ((page >> at.lg_pages) - found.tag.distance()) << at.lg_pages : page - found.tag.distance();
    shard_word claimed{};
    if (found.tag.may_have_unclaimed()) claimed.bits = at.shard(c, found.tag.shard()).load(simt::relaxed);
    for (unsigned w = simt::lane_id(); w < mine.num_words; w += simt::warp_lanes) {
      uint64_t const bits = simt::global_ref<uint64_t>{at.words[size_t{page} * at.words_per_page + w]}.load(simt::relaxed);
      unsigned const word = mine.first_word + w;
      for (uint64_t live = ~bits & slot_map::slots_in(word, mine.num_slots); live != 0; live &= live - 1) {
        unsigned const slot = word * slot_map::slots_per_word + simt::lowest_bit(live);
        if (found.tag.may_have_unclaimed() && claimed.is_unclaimed(head, slot)) continue;
        add(at.address(head, slot, c), size_classes::slot_bytes(c));
      }
    }
  }
  GPUHEAP_FN void add(void* p, uint64_t bytes) const {
    block_info block;
    block.address = reinterpret_cast<simt::uintptr_t>(p);
    block.bytes = bytes;
    // relaxed: the addition gives each block a place of its own in `into`.
    into[simt::global_ref<uint64_t>{*count}.fetch_add(1, simt::relaxed)] = block;
  }
};

#if GPUHEAP_HAS_HOST
// Returns every live block, in the order of addresses. Host; waits for the stream.
template <class Spans>
[[nodiscard]] std::vector<block_info> blocks(layout const& at, Spans* heap, stream_ref stream) {
  constexpr unsigned block_threads = 256;
  // The heap is listed in parts, by one kernel each. A part has at least one page, and otherwise so many that the list of its blocks takes
  // at most 64 MiB.
  unsigned const most = (64u << 20) / sizeof(block_info), in_page = at.bits_per_page + 1;
  unsigned const part = std::min(at.num_pages, std::max(1u, most / in_page));
  memory::allocation const list{memory::device, size_t{part} * in_page * sizeof(block_info)};
  memory::allocation const counter{memory::device, sizeof(uint64_t)};
  std::vector<block_info> all;
  for (unsigned first = 0; first < at.num_pages; first += part) {
    simt::fill(counter.base(), 0, sizeof(uint64_t), stream);
    unsigned const end = first + std::min(part, at.num_pages - first);
    unsigned const wanted = static_cast<unsigned>(simt::round_up_pow2(size_t{end - first} * simt::warp_lanes, block_threads));
    unsigned const threads = std::min(wanted, simt::most_resident_threads<list_live<Spans>>(block_threads));
    launch(threads,
           list_live<Spans>{heap, first, end, static_cast<block_info*>(list.base()), static_cast<uint64_t*>(counter.base()), threads},
           {.block_threads = block_threads, .stream = stream});
    uint64_t count = 0;
    simt::copy(&count, counter.base(), sizeof count, stream);
    simt::synchronize(stream);
    if (count == 0) continue;
    size_t const before = all.size();
    all.resize(before + count);
    simt::copy(all.data() + before, list.base(), count * sizeof(block_info), stream);
    simt::synchronize(stream);
  }
  // The kernel lists a slot with the page whose slot words hold its bit, and that need not be the page in which the slot lies.
  std::sort(all.begin(), all.end(), [](block_info const& a, block_info const& b) { return a.address < b.address; });
  return all;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
