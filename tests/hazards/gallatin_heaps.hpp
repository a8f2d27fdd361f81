// Small heaps of gallatin, with parts of it replaced or not, and the mixes that they must survive.
#pragma once

#include "mix.hpp"

#include <gpuheap/allocators/gallatin.hpp>

namespace hazards {

using gpuheap::gallatin_config;
namespace parts_of = gpuheap::gallatin_parts;
using parts_of::mode;
using parts_of::segment_word;
using parts_of::slot_word;
using parts_of::uint32_t;
using parts_of::uint64_t;

// Classes of 16, 32 and 64 bytes; all edges are near. tiny: blocks of 4 slices, 64, 128 and 256 bytes; a segment has 4, 2 or 1 of them.
// wide: blocks of 128 slices, whose bits are in two words.
constexpr gallatin_config tiny{
    .segment_bytes = 256, .largest_slice = 64, .most_slices = 2, .least_slots = 2, .slot_share = 4, .least_segments = 8};
constexpr gallatin_config wide{
    .segment_bytes = 8192, .largest_slice = 64, .most_slices = 8, .least_slots = 2, .slot_share = 8, .least_segments = 8};

template <class Parts = parts_of::parts, gallatin_config Config = tiny>
using small_heap = gpuheap::heap<gpuheap::basic_gallatin<Config, Parts>>;

template <class Heap>
[[nodiscard]] auto geometry(Heap const& heap) {
  return heap.ref().allocator().geometry();
}
// Bytes of a heap of n segments as long as they can be.
template <class Heap>
[[nodiscard]] simt::size_t bytes_of_segments(unsigned n) {
  using allocator = typename Heap::allocator_type;
  using layout = typename allocator::layout_type;
  char* end = nullptr;
  (void)layout::of(n, layout::most_lg_slices, simt::query_device().num_sms, nullptr, sizeof(typename allocator::state_type), end);
  return Heap::min_bytes() - allocator::min_region_bytes() + reinterpret_cast<std::uintptr_t>(end) + 256;
}
// Nothing is wrong, nothing is live, and all of the memory can be had as one run.
template <class Heap>
[[nodiscard]] bool is_as_new(Heap& heap) {
  auto const found = heap.verify();
  if (!found.problem.empty() || found.live_slices + found.live_blocks + found.live_runs != 0) return false;
  return served(heap, 1, geometry(heap).num_segments * geometry(heap).segment_bytes()) == 1 && heap.verify().problem.empty();
}

// Slices, whole blocks and runs.
struct gallatin_sizes {
  unsigned block_bytes, segment_bytes;
  GPUHEAP_FN unsigned operator()(test::rng& random) const {
    unsigned const kind = random.below(16);
    return kind == 0  ? segment_bytes + 1 + random.below(segment_bytes)
           : kind < 4 ? block_bytes + random.below(block_bytes)
           : kind < 6 ? 65 + random.below(64)
                      : 1 + random.below(64);
  }
};
template <class Parts, gallatin_config Config = tiny>
[[nodiscard]] bool survives(unsigned segments, unsigned threads = 80, unsigned rounds = 5) {
  using heap_t = small_heap<Parts, Config>;
  heap_t heap{bytes_of_segments<heap_t>(segments)};
  auto const at = geometry(heap);
  gallatin_sizes const sizes{static_cast<unsigned>(at.block_bytes(1)), static_cast<unsigned>(at.segment_bytes())};
  return lives_together(heap, threads, rounds, sizes, [&] { return is_as_new(heap); });
}

}  // namespace hazards
