// The baseline bump_sharded: a lower bound of the time of an allocator that hands out separate memory. Each SM has a counter that only
// rises, the lanes of a warp that ask together add to it once, and free does nothing.
//
// Layout:  counter of shard 0 (8 bytes, alone in 1 KiB), shard 1, ...   then the shards' equal parts of the pool
// A used-up shard returns nullptr, even if others have memory left.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>

#include <algorithm>

namespace gpuheap::bench {

class bump_sharded {
 public:
  static constexpr bool is_baseline = true;
  static constexpr allocator_traits traits{
      .name = "bump_sharded",
      .title = "a counter per SM, one addition per warp",
      .reuse = "none",
      .free = frees::never,
  };

  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > part_bytes_) return nullptr;
    simt::lane_mask const here = simt::active_mask();
    unsigned const lane = simt::lane_id();
    simt::uint64_t const units = simt::ceil_div(bytes, unit_bytes);
    simt::uint64_t before = 0, all = 0;  // units that the lanes below this one ask for, and all lanes
    unsigned const num_bits = widest(here, units);
    // A ballot a bit adds up what the lanes below ask, whichever lanes are here.
    for (unsigned bit = 0; bit < num_bits; ++bit) {
      simt::lane_mask const having = simt::ballot(here, (units >> bit & 1) != 0);
      before += simt::uint64_t{simt::popcount(having & ((simt::lane_mask{1} << lane) - 1))} << bit;
      all += simt::uint64_t{simt::popcount(having)} << bit;
    }
    unsigned const leader = simt::lowest_bit(here);
    unsigned const shard = simt::shuffle(here, simt::sm_id() % num_shards_, leader);
    simt::uint64_t start = 0;
    // relaxed: the counter alone decides which thread owns which bytes. It cannot wrap: no number of kernels requests 2^64 bytes.
    if (lane == leader) start = simt::atomic_ref<simt::uint64_t>{*counter(shard)}.fetch_add(all * unit_bytes, simt::relaxed);
    start = simt::shuffle(here, start, leader) + before * unit_bytes;
    return start + bytes <= part_bytes_ ? pool_ + shard * part_bytes_ + start : nullptr;
  }
  GPUHEAP_FN void free(void*) const {}

  [[nodiscard]] GPUHEAP_HD static simt::size_t rounded_size(simt::size_t bytes) { return simt::round_up_pow2(bytes, unit_bytes); }

  [[nodiscard]] static simt::size_t min_region_bytes() { return 2 * stride_bytes; }
  [[nodiscard]] static bump_sharded create(memory::region region, stream_ref stream) {
    bump_sharded a;
    a.base_ = static_cast<unsigned char*>(region.base);
    // In a small region fewer shards, so that the counters take a sixteenth of it at most.
    a.num_shards_ =
        static_cast<unsigned>(std::clamp<simt::size_t>(region.bytes / (16 * stride_bytes), 1, std::max(1u, simt::query_device().num_sms)));
    a.pool_ = a.base_ + a.num_shards_ * stride_bytes;
    a.part_bytes_ = (region.bytes - a.num_shards_ * stride_bytes) / a.num_shards_ / 256 * 256;
    simt::fill(region.base, 0, a.num_shards_ * stride_bytes, stream);
    return a;
  }

 private:
  static constexpr simt::uint64_t unit_bytes = traits.min_alignment;
  static constexpr simt::size_t stride_bytes = 1024;  // counters nearer to each other share a slice of the L2 cache

  // Bits of the largest number that a lane of `mask` has.
  [[nodiscard]] GPUHEAP_FN static unsigned widest(simt::lane_mask mask, simt::uint64_t number) {
    auto const high = simt::reduce_or(mask, static_cast<simt::uint32_t>(number >> 32));
    auto const low = simt::reduce_or(mask, static_cast<simt::uint32_t>(number));
    return high != 0 ? 33 + simt::highest_bit(high) : low != 0 ? 1 + simt::highest_bit(low) : 0;
  }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t* counter(unsigned shard) const {
    return reinterpret_cast<simt::uint64_t*>(base_ + shard * stride_bytes);
  }

  unsigned char* base_ = nullptr;
  unsigned char* pool_ = nullptr;
  simt::size_t part_bytes_ = 0;
  unsigned num_shards_ = 1;
};
static_assert(device_allocator<bump_sharded>);

}  // namespace gpuheap::bench
