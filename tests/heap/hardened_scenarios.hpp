// Scenarios of hardened heaps under many schedules: wrong frees beside correct ones, at the moments at which an allocator is most easily
// broken. Each scenario takes the bits that decide between frees.
#pragma once

#include "../support/seeds.hpp"
#include "fixtures.hpp"

#include <gpuheap/hardened.hpp>
#include <gpuheap/simt/explore.hpp>

#include <algorithm>
#include <set>

namespace hardened_scenarios {

using namespace test;
using gpuheap::free_status;
using gpuheap::checking::begin_bits;

template <class Bits>
using heap_with = gpuheap::heap<gpuheap::hardened<gpuheap::sharded_spans, Bits>>;

// Whether the heap is sound, and what it can still hand out lies apart from itself and from `held`.
template <class Heap>
bool is_whole(Heap& heap, std::vector<void*> const& held, std::size_t bytes) {
  if (!heap.verify().problem.empty()) return false;
  std::vector<void*> all = blocks_of(heap, 1200, bytes);
  all.insert(all.end(), held.begin(), held.end());
  all.erase(std::remove(all.begin(), all.end(), nullptr), all.end());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (static_cast<char*>(all[i]) - static_cast<char*>(all[i - 1]) < static_cast<std::ptrdiff_t>(bytes)) return false;
  }
  return true;
}

// Kernel of two warps: the first frees p twice, the second frees the last other block of their span, and both ask for another size then:
// the second free of p comes while the span ends, or has another size class.
template <class Ref>
struct end_a_span {
  Ref heap;
  void** blocks;
  void** got;
  unsigned* done;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 1) {
      heap.free(blocks[1]);
    } else {
      unsigned count = heap.free(blocks[0]) == free_status::done;
      count += heap.free(blocks[0]) == free_status::done;
      *done = count;
    }
    for (unsigned n = 0; n < 2; ++n) got[i * 2 + n] = heap.malloc(496);
  }
};
template <class Bits>
simt::exploration explore_the_end_of_a_span(std::uint64_t seeds) {
  return simt::explore(seeds, [] {
    using heap_t = heap_with<Bits>;
    heap_t heap{768_KiB};
    std::vector<void*> all = blocks_of(heap, 40, 1008, {.block_threads = 32});
    heap.free(std::vector<void*>(all.begin() + 2, all.end()));
    device_array<void*> blocks{all}, got(4);
    device_array<unsigned> done(1);
    gpuheap::launch(2, end_a_span<typename heap_t::ref_type>{heap.ref(), blocks.data(), got.data(), done.data()}, {.block_threads = 1});
    // Freed, p is handed out again only as a block of 496 bytes, which its second free may hit by right: no allocator can tell.
    auto held = got.read();
    bool const again = std::count(held.begin(), held.end(), all[0]) != 0;
    if (done.first() == 2 && !again) return false;
    if (done.first() == 2) held.erase(std::find(held.begin(), held.end(), all[0]));
    return is_whole(heap, held, 496);
  });
}

// Kernel: every thread frees the same blocks; the first block of threads draws new ones meanwhile, so that places that were never handed
// out and are freed wrongly become blocks.
template <class Ref>
struct free_what_comes {
  Ref heap;
  void* first;
  void** got;
  unsigned* freed;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i < 4) {
      got[i] = heap.malloc(64);
      return;
    }
    for (unsigned n = 0; n < 3; ++n) {
      // Blocks of 64 bytes in a row: the first is live, those behind it were never handed out at first. Of these, 48 bytes on, none begins.
      if (heap.free(static_cast<char*>(first)) == free_status::done)
        simt::atomic_ref<unsigned>{*freed}.fetch_add(1, simt::relaxed);  // relaxed: a count
      heap.free(static_cast<char*>(first) + 64 * (n + 1) + 48);
    }
  }
};
template <class Bits>
simt::exploration explore_frees_beside_requests(std::uint64_t seeds) {
  return simt::explore(seeds, [] {
    using heap_t = heap_with<Bits>;
    heap_t heap{768_KiB};
    void* const first = blocks_of(heap, 1, 64)[0];
    device_array<void*> got(4);
    device_array<unsigned> freed(1);
    gpuheap::launch(12, free_what_comes<typename heap_t::ref_type>{heap.ref(), first, got.data(), freed.data()}, {.block_threads = 4});
    auto held = got.read();
    unsigned const again = static_cast<unsigned>(std::count(held.begin(), held.end(), first));
    if (freed.first() < 1 || freed.first() > 1 + again) return false;
    if (freed.first() == 1 + again) held.erase(std::remove(held.begin(), held.end(), first), held.end());
    return heap.stats().live_allocations == held.size() && is_whole(heap, held, 64);
  });
}

// Kernel: the first thread resizes a large block that the second frees, whose memory the second then asks for again.
template <class Ref>
struct resize_what_is_freed {
  Ref heap;
  void* block;
  void** got;
  simt::uint64_t* usable;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 0) {
      (void)heap.allocator().try_resize(block, 40 << 10);
    } else {
      heap.free(block);
      *got = heap.malloc(100 << 10);
      *usable = heap.usable_size(*got);
    }
  }
};
template <class Ref>
struct ask_size {
  Ref heap;
  void** got;
  simt::uint64_t* usable;
  GPUHEAP_FN void operator()(unsigned) const { *usable = heap.usable_size(*got); }
};
template <class Bits>
simt::exploration explore_a_resize_of_what_is_freed(std::uint64_t seeds) {
  return simt::explore(seeds, [] {
    using heap_t = heap_with<Bits>;
    using ref = typename heap_t::ref_type;
    heap_t heap{768_KiB};
    void* const block = blocks_of(heap, 1, 100 << 10)[0];
    device_array<void*> got(1);
    device_array<simt::uint64_t> usable(1);
    gpuheap::launch(2, resize_what_is_freed<ref>{heap.ref(), block, got.data(), usable.data()}, {.block_threads = 1});
    gpuheap::launch(1, ask_size<ref>{heap.ref(), got.data(), usable.data()});
    // Handed out again at the same address, the block is what the resize means: no allocator can tell.
    return (got.first() == block || usable.first() >= 100 << 10) && heap.verify().problem.empty();
  });
}

// Kernel: each warp frees the same row of blocks, by one atomic for several.
template <class Ref>
struct free_the_row {
  Ref heap;
  void** blocks;
  unsigned* freed;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (heap.free(blocks[i % 16]) == free_status::done) simt::atomic_ref<unsigned>{*freed}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
template <class Bits>
simt::exploration explore_two_warps_that_free_one_row(std::uint64_t seeds) {
  return simt::explore(seeds, [] {
    using heap_t = heap_with<Bits>;
    heap_t heap{768_KiB};
    device_array<void*> blocks{blocks_of(heap, 16, 160, {.block_threads = 16})};
    device_array<unsigned> freed(1);
    gpuheap::launch(32, free_the_row<typename heap_t::ref_type>{heap.ref(), blocks.data(), freed.data()}, {.block_threads = 16});
    return freed.first() == 16 && is_whole(heap, {}, 160);
  });
}

}  // namespace hardened_scenarios
