// What is live in a sharded-runs heap at rest, counted from its metadata. Host only.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/sharded_runs/image.hpp>

#if GPUHEAP_HAS_HOST
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// One entry for each size that has live blocks, small sizes first. Waits for the stream; no kernel may be running on the heap. A page that
// is neither free nor the start of a run or of a large allocation is passed over: verify() says what is wrong with it.
template <class Runs>
[[nodiscard]] std::vector<live_size> live_blocks(layout const& at, Runs const* heap, stream_ref stream) {
  detail::image<Runs> const now{at, heap, stream};
  unsigned const num_pages = now.block.segments_there << at.lg_pages;
  std::vector<shard_word> fresh(num_pages);  // of runs of which a shard has not handed out all
  // Ends: one pass for each shard.
  for (size_t i = 0; i < now.shards.size(); i += at.shard_stride) {
    shard_word const w{now.shards[i]};
    if (w.has_run() && !w.is_sweep() && w.page() < num_pages) fresh[w.page()] = w;
  }
  std::vector<live_size> sizes;
  auto const count = [&sizes](simt::uint64_t bytes, simt::uint64_t blocks) {
    auto place = sizes.begin();
    // Ends: at most one pass for each size.
    while (place != sizes.end() && place->block_bytes < bytes) ++place;
    if (place == sizes.end() || place->block_bytes != bytes) place = sizes.insert(place, {bytes, 0});
    place->blocks += blocks;
  };
  // Ends: every pass goes on by a page or more.
  for (unsigned page = 0; page < num_pages;) {
    run_header const h = now.header(page);
    if (!now.is_free(page) && h.is_large()) {
      count(simt::uint64_t{h.large_segments()} << at.segment_shift(), 1);
      page += h.large_segments() << at.lg_pages;
    } else if (!now.is_free(page) && (h.bits & run_header::slots) != 0) {
      unsigned const num_slots = at.run_slots(h);
      unsigned live = num_slots;
      // Ends: one pass for each word.
      for (unsigned w = 0; w < slot_map::words_for(num_slots); ++w)
        live -= simt::popcount(now.words[size_t{page} * at.words_per_page + w] & slot_map::slots_in(w, num_slots));
      if (shard_word const w = fresh[page]; w.has_run()) live -= w.num_slots() - w.next();
      if (live != 0) count(size_classes::slot_bytes(h.size_class()), live);
      page += h.of_segments() ? h.length() << at.lg_pages : h.length();
    } else {
      ++page;
    }
  }
  return sizes;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
#endif
