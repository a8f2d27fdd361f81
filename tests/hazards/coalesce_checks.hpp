// Common parts of the tests of the coalescing allocators: small heaps over the plain locked one, which hides no mistake, and blocks of all
// calls that pass from thread to thread.
#pragma once

#include "mix.hpp"

#include <gpuheap/allocators/coalesce.hpp>
#include <gpuheap/allocators/coalesce_dynamic.hpp>

namespace hazards {

using gpuheap::backing_reference;
using gpuheap::coalesce_alignment;
using gpuheap::coalesce_config;
using gpuheap::coalesce_dynamic_config;
using gpuheap::coalesce_group;
using gpuheap::coalesce_link;
using gpuheap::free_status;

template <class A>
using blocks_in = blocks_of<gpuheap::heap<A>>;
template <class A>
[[nodiscard]] gpuheap::heap<A> heap_with(std::size_t bytes) {
  return gpuheap::heap<A>{gpuheap::heap<A>::min_bytes() + bytes};
}

// Whether nothing is live, no superblock is left, and the map, if there is one, is empty.
template <class A>
[[nodiscard]] bool is_sound_and_empty(gpuheap::heap<A> const& heap) {
  auto const s = heap.stats();
  if constexpr (gpuheap::has_verify<A>) {
    auto const a = heap.verify();
    if (!a.problem.empty() || a.live_pieces != 0) return false;
  }
  return s.live_allocations == 0 && s.held_bytes == 0 && s.double_frees == 0 && s.foreign_frees == 0;
}

// The way in which the threads of a block come together: a thread_group made in the block's scratch.
using census = gpuheap::live_block_threads;

// Kernel: threads get blocks by a call of the whole block and by plain ones, and pass them on. The receiver of a block checks that it is as
// it was written, and frees it. Some threads return before the block's first call.
template <class Ref, class Group>
struct pass_on {
  Ref heap;
  gpuheap::block_scratch* scratch;
  void** mailboxes;
  unsigned num_mailboxes;
  unsigned rounds;
  unsigned* wrong;

  struct letter {
    simt::uint64_t key, sum;
  };
  GPUHEAP_FN static bool comes(unsigned i) { return i % 7 != 0; }

  GPUHEAP_FN void operator()(unsigned i) const {
    if (!comes(i)) return;
    test::rng random{i}, of_block{simt::block_id() + 100u};
    Group const group{scratch[simt::block_id()]};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const bytes = 16 + 16 * of_block.below(4);
      pass(heap.malloc_coalesced(group, bytes), bytes, i * 64 + round * 2, random);
      unsigned const own = 16 + random.below(60);
      if (random.below(3) != 0) pass(heap.malloc(own), own, i * 64 + round * 2 + 1, random);
    }
  }
  GPUHEAP_FN void pass(void* p, unsigned bytes, simt::uint64_t key, test::rng& random) const {
    if (p != nullptr) {
      simt::plain_write(*static_cast<letter*>(p), letter{key << 8 | bytes, test::mix(key << 8 | bytes)});
      // Its end.
      auto* const last = static_cast<unsigned char*>(p) + bytes - 1;
      if (bytes > sizeof(letter)) simt::plain_write(*last, static_cast<unsigned char>(key));
    }
    // release: publishes what was written. acquire: pairs with that of the thread that put the other block there.
    end(simt::atomic_ref<void*>{mailboxes[random.below(num_mailboxes)]}.exchange(p, simt::acq_rel));
  }
  GPUHEAP_FN void end(void* p) const {
    if (p == nullptr) return;
    letter const found = simt::plain_read(*static_cast<letter const*>(p));
    unsigned const bytes = found.key & 0xff;
    bool bad = found.sum != test::mix(found.key);
    if (!bad && bytes > sizeof(letter)) {
      bad = simt::plain_read(static_cast<unsigned char const*>(p)[bytes - 1]) != static_cast<unsigned char>(found.key >> 8);
    }
    bad = heap.free(p) != free_status::done || bad;
    if (bad) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
template <class Ref, class Group>
struct empty_mailboxes {
  pass_on<Ref, Group> of;
  GPUHEAP_FN void operator()(unsigned i) const { of.end(of.mailboxes[i]); }
};

// Whether all blocks are as they were written, whoever frees them, and all superblocks go back. `bytes`: of the heap, beyond the least.
template <class A, class Group = census>
[[nodiscard]] bool blocks_change_hands(unsigned threads, unsigned block_threads, unsigned rounds, std::size_t bytes) {
  using ref = typename gpuheap::heap<A>::ref_type;
  auto heap = heap_with<A>(bytes);
  test::device_array<gpuheap::block_scratch> scratch(threads / block_threads + 1);
  test::device_array<void*> mailboxes(5);
  test::device_array<unsigned> wrong(1);
  pass_on<ref, Group> const kernel{heap.ref(), scratch.data(), mailboxes.data(), 5, rounds, wrong.data()};
  gpuheap::launch(threads, kernel, {.block_threads = block_threads});
  gpuheap::launch(5, empty_mailboxes<ref, Group>{kernel});
  return wrong.first() == 0 && is_sound_and_empty(heap);
}

// Kernel: by blocks, what it gets.
template <class Ref>
struct malloc_by_blocks {
  Ref heap;
  gpuheap::block_scratch* scratch;
  std::size_t const* sizes;
  void** out;
  GPUHEAP_FN void operator()(unsigned i) const { out[i] = heap.malloc_coalesced(gpuheap::live_block(scratch[simt::block_id()]), sizes[i]); }
};
template <class A>
void malloc_all_by_blocks(blocks_in<A>& b, gpuheap::heap<A>& heap, unsigned block_threads) {
  test::device_array<gpuheap::block_scratch> scratch(b.count() / block_threads + 1);
  gpuheap::launch(
      b.count(),
      malloc_by_blocks<typename gpuheap::heap<A>::ref_type>{heap.ref(), scratch.data(), b.device_sizes().data(), b.pointers().data()},
      {.block_threads = block_threads});
}

}  // namespace hazards
