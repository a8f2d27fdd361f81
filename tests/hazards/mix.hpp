// Blocks of all kinds that come and go on a heap so small that every step of an allocator happens all the time: for the real allocators,
// and for those with a mistake.
#pragma once

#include "mutant.hpp"

namespace hazards {

template <class Heap>
using blocks_of = test::blocks<typename Heap::ref_type>;

// The number of `count` blocks that a heap serves at once; they are freed again.
template <class Heap>
[[nodiscard]] unsigned served(Heap& heap, unsigned count, simt::size_t bytes, unsigned block_threads = 256) {
  blocks_of<Heap> b(heap.ref(), count, bytes);
  b.malloc_all(block_threads);
  unsigned const n = count - static_cast<unsigned>(b.failed_requests());
  b.free_all();
  return n;
}

// Kernel: every thread replaces one of three blocks in each round, and gives all back at the end. Who finds a word of its own block changed
// counts it. `next_size(random)`: bytes of the next block.
template <class Ref, class NextSize>
struct live_together {
  Ref heap;
  NextSize next_size;
  unsigned rounds;
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* held[3] = {};
    unsigned sizes[3] = {};
    for (unsigned round = 0; round < rounds + 3; ++round) {
      unsigned const slot = round < rounds ? random.below(3) : round - rounds;
      if (held[slot] != nullptr && test::wrong_words(held[slot], written(sizes[slot]), i * 3 + slot) != 0) {
        simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
      }
      heap.free(held[slot]);
      held[slot] = nullptr;
      if (round >= rounds) continue;
      sizes[slot] = next_size(random);
      held[slot] = heap.malloc(sizes[slot]);
      if (held[slot] != nullptr) test::fill_pattern(held[slot], written(sizes[slot]), i * 3 + slot);
    }
  }
  // The first words suffice for an overlap to be seen.
  GPUHEAP_FN static unsigned written(unsigned bytes) { return bytes < 64 ? bytes : 64; }
};

// Runs it twice. `at_rest()`: whether the heap is sound afterwards, with nothing live.
template <class Heap, class NextSize, class AtRest>
[[nodiscard]] bool lives_together(Heap& heap, unsigned threads, unsigned rounds, NextSize next_size, AtRest at_rest) {
  test::device_array<unsigned> wrong(1);
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads, live_together<typename Heap::ref_type, NextSize>{heap.ref(), next_size, rounds, wrong.data()},
                    {.block_threads = 64});
    if (wrong.first() != 0 || !at_rest()) return false;
  }
  auto const s = heap.stats();
  return s.live_allocations == 0 && s.double_frees == 0 && s.foreign_frees == 0;
}

}  // namespace hazards
