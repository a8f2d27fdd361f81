// The baseline store_only: no allocator at all. A request gets an address computed from the thread's number, so the times are those of a
// case's kernels without allocation: the launch, the store and the load.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::bench {

struct store_only {
  static constexpr bool is_baseline = true;
  static constexpr bool hands_out_memory = false;
  static constexpr allocator_traits traits{
      .name = "store_only",
      .title = "no allocation: stores a computed address",
      .reuse = "nothing is managed",
      .free = frees::never,
      .overwrites = true,
  };

  unsigned char* base;

  // Blocks of equal size asked for by every thread, or by one lane of each warp, do not overlap and lie within a heap that holds them all;
  // those of mixed sizes may.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    simt::uint64_t const thread = simt::uint64_t{simt::block_id()} * simt::threads_per_block() + simt::thread_in_block();
    return base + thread * simt::round_up_pow2(bytes, traits.min_alignment);
  }
  GPUHEAP_FN void free(void*) const {}

  [[nodiscard]] static constexpr simt::size_t min_region_bytes() { return 1; }
  [[nodiscard]] static store_only create(memory::region region, stream_ref) { return {static_cast<unsigned char*>(region.base)}; }
};
static_assert(device_allocator<store_only>);

}  // namespace gpuheap::bench
