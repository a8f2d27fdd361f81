// Common parts of the tests of halloc: heaps of few small slabs without a backing, and contention on them.
#pragma once

#include "mutant.hpp"

#include <gpuheap/allocators/halloc.hpp>

namespace hazards {

using gpuheap::halloc_config;
using gpuheap::refusing_backing;
using gpuheap::halloc_parts::rules;
using gpuheap::halloc_parts::slab_role;
using gpuheap::halloc_parts::slab_use;
namespace parts = gpuheap::halloc_parts;

// Slabs of 4 KiB, one block of 3072 bytes each; next heads are fetched however small the heap is.
inline constexpr halloc_config small{.slab_bytes = 4096, .prefetch_slabs = 1};
inline constexpr halloc_config small_without_next{.slab_bytes = 4096, .prefetch_slabs = ~0u};
template <class Rules = rules, halloc_config Config = small_without_next>
using small_halloc = gpuheap::basic_halloc<Config, refusing_backing, Rules>;

template <class A>
using blocks_of = test::blocks<typename gpuheap::heap<A>::ref_type>;

// The size of a heap of so many slabs.
template <class A>
[[nodiscard]] std::size_t bytes_for(unsigned num_slabs) {
  return gpuheap::heap<A>::min_bytes() + parts::layout<small>::of(num_slabs, 12).end - parts::layout<small>::of(1, 12).end + 512;
}
template <class A>
[[nodiscard]] std::size_t served(gpuheap::heap<A>& heap, std::size_t count, std::size_t bytes) {
  blocks_of<A> b(heap.ref(), count, bytes);
  b.malloc_all();
  return count - b.failed_requests();
}

// ---- contention on few slabs

// Kernel: threads keep two blocks and pass others on, of sizes of all chunk sizes and lengths; each says first whose it is.
template <class Ref>
struct contend {
  Ref heap;
  void** mailboxes;
  unsigned num_mailboxes;
  unsigned rounds;
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{simt::uint64_t{i} + 1};
    void* held[2] = {};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const c = random.below(15);
      unsigned const bytes = parts::classes<small>::bytes_of(c == 1 ? 15 : c) - random.below(4);
      void* p = heap.malloc(bytes);
      if (p != nullptr) sign(p, bytes, simt::uint64_t{i} << 32 | round);
      // release: publishes what was written. acquire: pairs with that of the thread that put the other block there.
      if (random.below(2) == 0) p = simt::atomic_ref<void*>{mailboxes[random.below(num_mailboxes)]}.exchange(p, simt::acq_rel);
      void*& mine = held[random.below(2)];
      end(mine);
      mine = p;
    }
    end(held[0]);
    end(held[1]);
  }
  struct letter {
    simt::uint64_t key, sum;
  };
  // Both ends of the block, so that any overlap is seen.
  GPUHEAP_FN static void sign(void* p, unsigned bytes, simt::uint64_t key) {
    simt::plain_write(*static_cast<letter*>(p), letter{key << 12 | bytes, test::mix(key << 12 | bytes)});
    if (bytes >= 32) simt::plain_write(static_cast<simt::uint64_t*>(p)[bytes / 8 - 1], test::mix(key));
  }
  GPUHEAP_FN void end(void* p) const {
    if (p == nullptr) return;
    letter const found = simt::plain_read(*static_cast<letter const*>(p));
    unsigned const bytes = found.key & 0xfff;
    bool bad = found.sum != test::mix(found.key);
    if (!bad && bytes >= 32) bad = simt::plain_read(static_cast<simt::uint64_t const*>(p)[bytes / 8 - 1]) != test::mix(found.key >> 12);
    if (bad) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);  // relaxed: a count
    if (heap.free(p) != gpuheap::free_status::done) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);
  }
};
template <class Ref>
struct empty_mailboxes {
  contend<Ref> of;
  GPUHEAP_FN void operator()(unsigned i) const { of.end(of.mailboxes[i]); }
};

// Whether all blocks kept what was written, and the heap is sound and serves everything afterwards.
template <class A>
bool stays_sound(unsigned num_slabs, unsigned threads, unsigned rounds) {
  using ref = typename gpuheap::heap<A>::ref_type;
  gpuheap::heap<A> heap{bytes_for<A>(num_slabs)};
  test::device_array<void*> mailboxes(5);
  test::device_array<unsigned> wrong(1);
  contend<ref> const kernel{heap.ref(), mailboxes.data(), 5, rounds, wrong.data()};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  if (wrong.first() != 0 || !heap.verify().problem.empty()) return false;
  gpuheap::launch(5, empty_mailboxes<ref>{kernel});
  parts::audit const empty = heap.verify();
  if (wrong.first() != 0 || !empty.problem.empty() || empty.live_blocks != 0 || empty.held_slabs != empty.heads) return false;
  return served(heap, num_slabs + 1, 3072) == num_slabs && heap.verify().problem.empty();
}

}  // namespace hazards
