// The replay of a recording. A block may be freed by another thread of the same kernel than the one that asked for it. No thread waits for
// it: if a free comes too early, the thread that asks makes the free.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>

#include "harness/random.hpp"
#include "harness/tagged_blocks.hpp"

namespace gpuheap::bench::trace {

// Values in place of a block that is not there.
inline constexpr simt::uint64_t not_yet = 0, freed_early = 1, refused = 2;

struct device_operation {
  simt::uint32_t allocation;
  simt::uint32_t bytes;  // 0: free
};

template <class Ref>
struct replay_operations {
  Ref heap;
  simt::uint32_t threads;  // of the recording; threads n .. 2n - 1 of the launch do the same with blocks of their own, and so on
  simt::uint32_t allocations;
  simt::uint32_t const* begins;
  device_operation const* operations;
  simt::uint32_t const* sizes;  // of the allocations
  simt::uint64_t* blocks;       // addresses, or one of the constants above
  bool whole_contents;          // write and check every word of a block; otherwise the first
  block_tally* tally;

  GPUHEAP_FN void operator()(unsigned thread) const {
    simt::uint32_t const copy = thread / threads, who = thread % threads;
    GPUHEAP_NO_UNROLL
    for (simt::uint32_t i = begins[who]; i < begins[who + 1]; ++i) {
      device_operation const todo = operations[i];
      simt::size_t const at = simt::size_t{copy} * allocations + todo.allocation;
      simt::uint64_t mine = freed_early;
      if (todo.bytes != 0) {
        void* const block = heap.malloc(todo.bytes);
        if (block != nullptr) fill(block, todo.bytes, at);
        count(tally->failed_requests, block == nullptr);
        mine = block != nullptr ? reinterpret_cast<simt::uint64_t>(block) : refused;
      }
      // acq_rel: pairs with itself in the thread that comes second. It sees what was written into the block, or that the block is to go.
      simt::uint64_t const before = simt::atomic_ref<simt::uint64_t>{blocks[at]}.exchange(mine, simt::acq_rel);
      // The thread that comes second frees the block: a request that finds its free done, or a free that finds a block.
      simt::uint64_t const gone = todo.bytes == 0 ? before : before == freed_early ? mine : refused;
      if (gone > refused) deallocate(reinterpret_cast<void*>(gone), sizes[todo.allocation], at);
    }
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::uint32_t stride(simt::uint32_t bytes) const { return whole_contents ? 1 : bytes; }

  // Blocks may be smaller than a word: words of 4 bytes, and none where there are fewer.
  GPUHEAP_FN void fill(void* block, simt::uint32_t bytes, simt::size_t at) const {
    auto const tag = static_cast<simt::uint32_t>(mix_bits(at));
    count(tally->misaligned, reinterpret_cast<simt::uintptr_t>(block) % Ref::allocator_type::traits.min_alignment != 0);
    for (simt::uint32_t w = 0; w < bytes / 4; w += stride(bytes)) static_cast<simt::uint32_t*>(block)[w] = tag + w;
  }
  GPUHEAP_FN void deallocate(void* block, simt::uint32_t bytes, simt::size_t at) const {
    auto const tag = static_cast<simt::uint32_t>(mix_bits(at));
    simt::uint32_t lost = 0;
    for (simt::uint32_t w = 0; w < bytes / 4; w += stride(bytes)) lost += static_cast<simt::uint32_t*>(block)[w] != tag + w;
    count(tally->lost, lost);
    heap.free(block);
  }
  // relaxed: tallies that the host reads after the kernel. Rare, so each is added where it happens.
  GPUHEAP_FN static void count(simt::uint64_t& what, simt::uint32_t more) {
    if (more != 0) simt::atomic_ref<simt::uint64_t>{what}.fetch_add(more, simt::relaxed);
  }
};

}  // namespace gpuheap::bench::trace
