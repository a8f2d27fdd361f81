// Small heaps of gallatin, with parts of it replaced or not, and what they must survive.
#pragma once

#include "mutant.hpp"

#include <gpuheap/allocators/gallatin.hpp>

#include <cstdlib>

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
using blocks_of = test::blocks<typename Heap::ref_type>;

[[nodiscard]] inline std::uint64_t num_seeds(std::uint64_t otherwise) {
  char const* const text = std::getenv("GPUHEAP_SEEDS");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
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
template <class Heap>
[[nodiscard]] unsigned served(Heap& heap, unsigned count, simt::size_t bytes) {
  blocks_of<Heap> b(heap.ref(), count, bytes);
  b.malloc_all(64);
  unsigned const n = count - static_cast<unsigned>(b.nulls());
  b.free_all();
  return n;
}
// Nothing is wrong, nothing is live, and all of the memory can be had as one run.
template <class Heap>
[[nodiscard]] bool is_as_new(Heap& heap) {
  auto const found = heap.verify();
  if (!found.problem.empty() || found.live_slices + found.live_blocks + found.live_runs != 0) return false;
  return served(heap, 1, geometry(heap).num_segments * geometry(heap).segment_bytes()) == 1 && heap.verify().problem.empty();
}

// Kernel: slices, whole blocks and runs come and go; who finds a word of its own block changed counts it.
template <class Ref>
struct live_together {
  Ref heap;
  unsigned rounds, block_bytes, segment_bytes;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* held[3] = {};
    unsigned sizes[3] = {};
    for (unsigned round = 0; round < rounds + 3; ++round) {
      unsigned const slot = round < rounds ? random.below(3) : round - rounds;
      unsigned const written = sizes[slot] < 64 ? sizes[slot] : 64;  // enough for an overlap to be seen
      if (held[slot] != nullptr && test::wrong_words(held[slot], written, i * 3 + slot) != 0) {
        simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
      heap.free(held[slot]);
      held[slot] = nullptr;
      if (round >= rounds) continue;
      unsigned const kind = random.below(16);
      sizes[slot] = kind == 0  ? segment_bytes + 1 + random.below(segment_bytes)
                    : kind < 4 ? block_bytes + random.below(block_bytes)
                    : kind < 6 ? 65 + random.below(64)
                               : 1 + random.below(64);
      held[slot] = heap.malloc(sizes[slot]);
      if (held[slot] != nullptr) test::fill_pattern(held[slot], sizes[slot] < 64 ? sizes[slot] : 64, i * 3 + slot);
    }
  }
};
template <class Parts, gallatin_config Config = tiny>
[[nodiscard]] bool survives(unsigned segments, unsigned threads = 80, unsigned rounds = 5) {
  using heap_t = small_heap<Parts, Config>;
  heap_t heap{bytes_of_segments<heap_t>(segments)};
  auto const at = geometry(heap);
  test::device_array<unsigned> wrong(1);
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads,
                    live_together<typename heap_t::ref_type>{heap.ref(), rounds, static_cast<unsigned>(at.block_bytes(1)),
                                                             static_cast<unsigned>(at.segment_bytes()), wrong.data()},
                    {.block_threads = 64});
    auto const s = heap.stats();
    if (wrong.first() != 0 || s.live_allocations != 0 || s.double_frees != 0 || s.foreign_frees != 0 || !is_as_new(heap)) return false;
  }
  return true;
}

}  // namespace hazards
