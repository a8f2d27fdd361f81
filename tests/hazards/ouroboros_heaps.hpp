// Small heaps of the Ouroboros allocators, with parts of them replaced or not, and the mixes that run on them.
#pragma once

#include "mix.hpp"

#include <gpuheap/allocators/ouroboros.hpp>

#include <string>

namespace hazards {

using gpuheap::basic_ouroboros;
using gpuheap::ouroboros_config;
using gpuheap::queue_of;
using gpuheap::refusing_backing;
using gpuheap::stored_in;
namespace ouro = gpuheap::ouro;
using ouro::warp_group;

// Chunks of 256 bytes, of 16 pages down to one; regions of 4; rings of pages that are soon full; segments of 64 places.
// Virtual queues keep a quarter of their segments.
constexpr ouroboros_config small{.chunk_bytes = 256, .static_places = 8, .backing_percent = 30, .kept_share = 4};
template <queue_of Holds, stored_in Stored, class Parts = ouro::parts>
using small_allocator = basic_ouroboros<Holds, Stored, small, refusing_backing, Parts>;
template <queue_of Holds, stored_in Stored, class Parts = ouro::parts>
using small_heap = gpuheap::heap<small_allocator<Holds, Stored, Parts>>;

// Bytes of a heap of so many regions.
template <class Heap>
[[nodiscard]] simt::size_t bytes_of_regions(unsigned regions) {
  using allocator = typename Heap::allocator_type;
  typename allocator::layout_type at;
  return Heap::min_bytes() - allocator::min_region_bytes() +
         at.lay_out(nullptr, sizeof(typename allocator::state_type), regions * allocator::layout_type::region_chunks);
}
template <class Heap>
[[nodiscard]] unsigned num_chunks(Heap const& heap) {
  unsigned n = 0;
  simt::copy(&n, &heap.ref().allocator().state()->num_chunks, sizeof n);
  return n;
}

// The number of blocks that a heap serves to threads one after the other; the blocks stay until the end.
template <class Heap>
[[nodiscard]] unsigned served_in_turn(Heap& heap, unsigned count, simt::size_t bytes) {
  blocks_of<Heap> all(heap.ref(), count, bytes);
  for (unsigned i = 0; i < count; ++i) {
    gpuheap::launch(1, test::malloc_each<typename Heap::ref_type>{heap.ref(), all.device_sizes().data(), all.pointers().data() + i});
  }
  all.free_all();
  return count - static_cast<unsigned>(all.failed_requests());
}

// Kernel: each thread keeps two blocks, looks at their contents and replaces them.
template <class Ref>
struct mix {
  Ref heap;
  unsigned rounds;
  unsigned most_lg;  // sizes up to 16 << most_lg
  unsigned* wrong;
  unsigned* got;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    void* held[2] = {};
    unsigned bytes[2] = {};
    unsigned bad = 0, n = 0;
    for (unsigned round = 0; round < rounds + 2; ++round) {
      unsigned const k = round % 2;
      if (held[k] != nullptr) {
        bad += test::wrong_words(held[k], bytes[k], key(i, k));
        bad += heap.free(held[k]) != gpuheap::free_status::done;
        held[k] = nullptr;
      }
      if (round >= rounds || random.below(4) == 0) continue;
      // Small ones mostly.
      unsigned const lg = random.below(3) == 0 ? random.below(most_lg + 1) : random.below(2);
      bytes[k] = (16u << lg) - random.below(8);
      held[k] = heap.malloc(bytes[k]);
      if (held[k] == nullptr) continue;
      test::fill_pattern(held[k], bytes[k], key(i, k));
      ++n;
    }
    if (bad != 0) simt::atomic_ref<unsigned>{*wrong}.fetch_add(bad, simt::relaxed);
    simt::atomic_ref<unsigned>{*got}.fetch_add(n, simt::relaxed);
  }
  GPUHEAP_FN static simt::uint64_t key(unsigned i, unsigned k) { return simt::uint64_t{i} << 32 | k; }
};

// The faults of a heap after kernels that fill it more than once; empty: none.
template <class Heap>
[[nodiscard]] std::string mistakes_of_a_mix(unsigned threads, unsigned regions, unsigned rounds, unsigned most_lg = 6) {
  Heap heap{bytes_of_regions<Heap>(regions)};
  test::device_array<unsigned> wrong(1), got(1);
  for (unsigned launch = 0; launch < 2; ++launch) {
    gpuheap::launch(threads, mix<typename Heap::ref_type>{heap.ref(), rounds, most_lg, wrong.data(), got.data()}, {.block_threads = 64});
    if (wrong.first() != 0) return "contents or answers are wrong";
    auto const found = heap.verify();
    if (!found.problem.empty()) return found.problem;
    if (found.live_pages != 0) return "pages are lost";
    if (got.first() == 0) return "nothing was served";
  }
  // Chunks serve any size again.
  if (Heap::allocator_type::traits.full_reuse && served_in_turn(heap, regions + 1, 1024) != regions) return "chunks are lost";
  return heap.verify().problem;
}
template <class Heap>
[[nodiscard]] bool a_mix_is_right() {
  return mistakes_of_a_mix<Heap>(75, 4, 4).empty();
}

// Calls f with each of the six allocators, as a type.
template <class F>
void for_each_sibling(F f) {
  f(static_cast<small_heap<queue_of::pages, stored_in::static_ring>*>(nullptr));
  f(static_cast<small_heap<queue_of::pages, stored_in::virtual_array>*>(nullptr));
  f(static_cast<small_heap<queue_of::pages, stored_in::virtual_list>*>(nullptr));
  f(static_cast<small_heap<queue_of::chunks, stored_in::static_ring>*>(nullptr));
  f(static_cast<small_heap<queue_of::chunks, stored_in::virtual_array>*>(nullptr));
  f(static_cast<small_heap<queue_of::chunks, stored_in::virtual_list>*>(nullptr));
}

// Parts with another queue, or another semaphore.
template <class Queue>
struct parts_with_queue : ouro::parts {
  template <stored_in, queue_of>
  using queue = Queue;
};
template <class Semaphore>
struct parts_with_semaphore : ouro::parts {
  using semaphore = Semaphore;
};

}  // namespace hazards
