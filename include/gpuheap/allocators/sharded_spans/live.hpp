// Counts the live blocks of a heap by a kernel over its metadata: tags, slot words, shard words, headers of large allocations.
//
// A warp counts 32 pages at a time. Lane i reads the tag of the i-th page, which says which slot words of that page belong to a span. Then
// all lanes together read the slot words of one page after the other, since nearly all bytes that a census reads are slot words. An
// unclaimed slot has the bit of a live one. The shard word of its span says how many slots are unclaimed.
//
// The counts are exact if no kernel uses the heap. Otherwise a census still reads only memory that exists, but its counts mix several
// moments, and a sum may be below zero, modulo 2^64.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_spans/spans.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <cstdint>
#include <cstdlib>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// Whether a large allocation begins at `page`, whose tag is `found.tag`.
[[nodiscard]] GPUHEAP_HD inline bool begins_large(layout const& at, unsigned page, layout::tag_found found) {
  return at.heads_large(at.address(page, 0, 0), page, found);
}
// Bytes of the large allocation with this header.
[[nodiscard]] GPUHEAP_HD inline uint64_t large_bytes(layout const& at, span_header h) { return uint64_t{h.large_pages()} << at.page_shift; }

// The slot words of one page that belong to a span.
struct page_words {
  unsigned num_words = 0;   // words that belong to the span, from the page's first word on
  unsigned first_word = 0;  // the number of the page's first word, counted from the span's first word
  unsigned num_slots = 0;   // slots of the whole span
  unsigned size_class = 0;

  // Those of `page`, whose tag is `found.tag`.
  [[nodiscard]] GPUHEAP_HD static page_words of(layout const& at, unsigned page, layout::tag_found found) {
    if (!found.tag.is_slotted()) return {};
    unsigned const c = found.tag.size_class(), num_slots = at.span_slots(c, found.tag.length(), found.of_segments);
    unsigned const units = found.tag.distance(), in_unit = page & ((1u << at.lg_pages) - 1);
    unsigned const first = (found.of_segments ? (units << at.lg_pages) + in_unit : units) * at.words_per_page;
    unsigned const all = slot_map::words_for(num_slots), left = first < all ? all - first : 0;
    return {left < at.words_per_page ? left : at.words_per_page, first, num_slots, c};
  }
};

// Sums over all sizes. Each thread has its own sums, which end() adds up.
struct total_tally {
  live_total* into;
  uint64_t allocations = 0, bytes = 0;

  // Adds `live` slots of class c whose bits say that they are live. All lanes of a warp call, each with its own slots.
  GPUHEAP_FN void add(unsigned c, unsigned live) {
    allocations += live;
    bytes += uint64_t{live} * size_classes::slot_bytes(c);
  }
  // Subtracts `slots` unclaimed slots of class c, which were counted as live. One thread.
  GPUHEAP_FN void take_off(unsigned c, unsigned slots) {
    allocations -= slots;
    bytes -= uint64_t{slots} * size_classes::slot_bytes(c);
  }
  // Adds a large allocation of `large` bytes. One thread.
  GPUHEAP_FN void add_large(uint64_t large) {
    ++allocations;
    bytes += large;
  }
  // Adds the sums of the warp's lanes to `into`. All lanes of a warp call.
  GPUHEAP_FN void end() {
    for (unsigned step = simt::warp_lanes / 2; step != 0; step /= 2) {
      allocations += simt::shuffle_xor(simt::all_lanes, allocations, step);
      bytes += simt::shuffle_xor(simt::all_lanes, bytes, step);
    }
    if (simt::lane_id() != 0 || (allocations == 0 && bytes == 0)) return;
    // relaxed, both: the sums are read after the kernel. A warp's sum may be below zero, modulo 2^64; the total of a heap that no kernel
    // uses is not.
    simt::global_ref<uint64_t>{into->allocations}.fetch_add(allocations, simt::relaxed);
    simt::global_ref<uint64_t>{into->bytes}.fetch_add(bytes, simt::relaxed);
  }
};

// Counts for each size, in device memory. The host sets them to zero first.
struct live_counts_by_size {
  uint64_t slots[size_classes::count] = {};
  uint64_t num_large = 0;
};
// Adds up the counts for each size.
struct size_tally {
  live_counts_by_size* into;
  uint64_t* large;  // a list of the bytes of each large allocation
  uint64_t room;    // the number of entries that the list has room for

  // The members of total_tally, for counts by size. relaxed, all: the counts are read after the kernel.
  GPUHEAP_FN void add(unsigned c, unsigned live) {
    live = simt::reduce_add(simt::all_lanes, live);
    if (simt::lane_id() == 0 && live != 0) simt::global_ref<uint64_t>{into->slots[c]}.fetch_add(live, simt::relaxed);
  }
  GPUHEAP_FN void take_off(unsigned c, unsigned slots) { simt::global_ref<uint64_t>{into->slots[c]}.fetch_sub(slots, simt::relaxed); }
  GPUHEAP_FN void add_large(uint64_t bytes) {
    uint64_t const place = simt::global_ref<uint64_t>{into->num_large}.fetch_add(1, simt::relaxed);
    if (place < room) simt::plain_write(large[place], bytes);
  }
  GPUHEAP_FN void end() {}
};

// Kernel of whole warps, `threads` threads in all: counts the live blocks of the heap. A template, so that programs without a census
// compile none of it.
template <class Spans, class Tally>
struct count_live {
  Spans* heap;
  Tally into;
  unsigned threads;

  GPUHEAP_FN void operator()(unsigned i) const {
    layout const& at = heap->at;
    Tally tally = into;
    // relaxed, here and below: an earlier kernel wrote these words, or else the value of any moment is good enough.
    unsigned const num_pages = simt::global_ref<unsigned>{heap->pages_there}.load(simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (unsigned first = i - simt::lane_id(); first < num_pages; first += threads) count_pages(at, first, num_pages, tally);
    GPUHEAP_NO_UNROLL
    for (unsigned k = i; k < at.num_classes << at.lg_shards; k += threads) {
      shard_word const w{at.shard(k >> at.lg_shards, k & (at.num_shards() - 1)).load(simt::relaxed)};
      if (w.has_span() && w.has_room() && !w.is_reused()) tally.take_off(k >> at.lg_shards, w.num_slots() - w.next());
    }
    tally.end();
  }

 private:
  GPUHEAP_FN static void count_pages(layout const& at, unsigned first, unsigned num_pages, Tally& tally) {
    unsigned const page = first + simt::lane_id();
    page_words mine{};
    if (page < num_pages) {
      auto const found = at.tag_of(page);
      mine = page_words::of(at, page, found);
      if (begins_large(at, page, found)) {
        span_header const h{at.header(page).load(simt::relaxed)};
        if (h.is_large()) tally.add_large(large_bytes(at, h));
      }
    }
    GPUHEAP_NO_UNROLL
    for (simt::lane_mask with = simt::ballot(simt::all_lanes, mine.num_words != 0); with != 0; with &= with - 1) {
      unsigned const lane = simt::lowest_bit(with);
      page_words const all{simt::shuffle(simt::all_lanes, mine.num_words, lane), simt::shuffle(simt::all_lanes, mine.first_word, lane),
                           simt::shuffle(simt::all_lanes, mine.num_slots, lane), simt::shuffle(simt::all_lanes, mine.size_class, lane)};
      tally.add(all.size_class, live_in(at.words + size_t{first + lane} * at.words_per_page, all));
    }
  }
  // Slots with bit 0 in the words of a page that this lane reads.
  [[nodiscard]] GPUHEAP_FN static unsigned live_in(uint64_t* words, page_words of) {
    constexpr unsigned at_once = 4;
    unsigned live = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned first = simt::lane_id(); first < of.num_words; first += at_once * simt::warp_lanes) {
      // The loads of four words are in flight together.
      for (unsigned j = 0; j < at_once; ++j) {
        unsigned const w = first + j * simt::warp_lanes;
        if (w >= of.num_words) continue;
        uint64_t const bits = simt::global_ref<uint64_t>{words[w]}.load(simt::relaxed);
        live += simt::popcount(~bits & slot_map::slots_in(of.first_word + w, of.num_slots));
      }
    }
    return live;
  }
};

#if GPUHEAP_HAS_HOST
// Launches count_live over all pages of the heap, in stream order. Host.
template <class Spans, class Tally>
void launch_count(layout const& at, Spans* heap, Tally tally, stream_ref stream) {
  constexpr unsigned block_threads = 256;
  unsigned const wanted = static_cast<unsigned>(simt::round_up_pow2(at.num_pages, block_threads));
  unsigned const most = simt::most_resident_threads<count_live<Spans, Tally>>(block_threads), threads = wanted < most ? wanted : most;
  launch(threads, count_live<Spans, Tally>{heap, tally, threads}, {.block_threads = block_threads, .stream = stream});
}

// Stores the number of live blocks, and their bytes, in device memory at `into`, in stream order. Host.
template <class Spans>
void take_census(layout const& at, Spans* heap, live_total* into, stream_ref stream) {
  simt::fill(into, 0, sizeof *into, stream);
  launch_count(at, heap, total_tally{into}, stream);
}

// Returns an entry for each size of live blocks, in the order of sizes. Host; waits for the stream.
template <class Spans>
[[nodiscard]] std::vector<live_size> live_blocks(layout const& at, Spans* heap, stream_ref stream) {
  memory::allocation const memory{memory::device, sizeof(live_counts_by_size)};
  live_counts_by_size counts;
  auto const count = [&](uint64_t* large, uint64_t room) {
    auto* const into = static_cast<live_counts_by_size*>(memory.base());
    simt::fill(into, 0, sizeof counts, stream);
    launch_count(at, heap, size_tally{into, large, room}, stream);
    simt::copy(&counts, into, sizeof counts, stream);
    simt::synchronize(stream);
  };
  count(nullptr, 0);
  std::vector<uint64_t> large(counts.num_large);
  if (!large.empty()) {
    memory::allocation const list{memory::device, large.size() * sizeof(uint64_t)};
    count(static_cast<uint64_t*>(list.base()), large.size());
    if (counts.num_large < large.size()) large.resize(counts.num_large);  // blocks were freed meanwhile
    simt::copy(large.data(), list.base(), large.size() * sizeof(uint64_t), stream);
    simt::synchronize(stream);
  }
  std::vector<live_size> sizes;
  for (unsigned c = 0; c < size_classes::count; ++c) {
    if (static_cast<std::int64_t>(counts.slots[c]) > 0) sizes.push_back({size_classes::slot_bytes(c), counts.slots[c]});
  }
  // std::sort would add a header that takes longer to compile than this file, in every program that makes a heap.
  std::qsort(large.data(), large.size(), sizeof(uint64_t), [](void const* a, void const* b) {
    uint64_t const left = *static_cast<uint64_t const*>(a), right = *static_cast<uint64_t const*>(b);
    return int{left > right} - int{left < right};
  });
  for (uint64_t const bytes : large) {
    if (sizes.empty() || sizes.back().block_bytes != bytes) sizes.push_back({bytes, 0});
    ++sizes.back().blocks;
  }
  return sizes;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
