// The policies by which heap and heap_ref know the number and the bytes of the live blocks: `counted` and `uncounted`. `default_statistics`
// chooses one of them for an allocator. This file also has the counters, and the host function that reads them.
#pragma once

#include <gpuheap/allocator_members.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The totals that a policy has counted; all zero for `uncounted`.
struct live_counts {
  simt::uint64_t allocations = 0;
  simt::uint64_t bytes = 0;
  simt::uint64_t peak_bytes = 0;
  simt::uint64_t peak_error_bytes = 0;
};

// Counts nothing: malloc and free are the allocator's own. heap::stats() asks the allocator for the live blocks, if the allocator can tell
// (has_census).
class uncounted {
 public:
  static constexpr bool counts = false;
  static constexpr simt::size_t counter_bytes = 0;

  uncounted() = default;
  GPUHEAP_HD uncounted(void*, simt::size_t) {}

  GPUHEAP_FN void allocated(simt::size_t) const {}
  GPUHEAP_FN void freed(simt::size_t) const {}
  GPUHEAP_FN void freed_together(simt::uint64_t, simt::uint64_t) const {}
#if GPUHEAP_HAS_HOST
  [[nodiscard]] live_counts read(void const*) const { return {}; }
#endif
};

// Counts live allocations, live bytes and the peak of live bytes, at each malloc and free. The atomics take up to several times as long as
// a fast allocator itself.
//
//   counter memory   +0     forwarded, peak (in quanta)
//                    +1 KiB stripe 0 {bytes, allocations}
//                    +2 KiB stripe 1 ...                      16 stripes
//
// The lanes of a warp that allocate together add once, to the stripe of their warp. The stripes lie 1 KiB apart because the unit that
// serialises atomics is a slice of the L2 cache, and addresses that far apart fall into different slices. A stripe's words are modulo 2^64:
// a warp of another stripe may free a block, so only the sum over all stripes is a count.
//
// Peak. When a change of a stripe's bytes crosses multiples of the quantum Q, the thread adds their number, negative for a fall, to one
// common word, `forwarded`. A thread that raises that word also raises the peak to it. When all additions have arrived,
//   live = Q * forwarded + sum over the 16 stripes of (bytes mod Q),
// so the peak that the host reads is at most 16 Q below the true one. Additions for allocations and frees at the same time may arrive in
// any order. This can add an error of up to the sizes of these blocks. Q is the largest power of two up to heap_bytes/2^14, but at least
// 16, so 16 Q is at most heap_bytes/1024, or 256 bytes.
class counted {
 public:
  static constexpr bool counts = true;
  static constexpr unsigned num_stripes = 16;
  static constexpr simt::size_t stride_bytes = 1024;
  static constexpr simt::size_t counter_bytes = (1 + num_stripes) * stride_bytes;

  struct totals {
    simt::uint64_t forwarded;
    simt::uint64_t peak;
  };
  struct stripe {
    simt::uint64_t bytes;
    simt::uint64_t allocations;
  };

  counted() = default;
  // `counters`: counter_bytes of zeroed device memory, aligned to 16. `heap_bytes` sets the quantum.
  GPUHEAP_HD counted(void* counters, simt::size_t heap_bytes)
      : counters_{static_cast<char*>(counters)}, quantum_log2_{simt::highest_bit(simt::uint64_t{heap_bytes >> 14 | 16})} {}

  // Each lane calls allocated() after its allocation of `bytes` has succeeded, and freed() after its free. `bytes` is 0 for allocators that
  // do not know sizes.
  GPUHEAP_FN void allocated(simt::size_t bytes) const { add<true>(bytes); }
  GPUHEAP_FN void freed(simt::size_t bytes) const { add<false>(bytes); }
  // One lane calls this for the frees of many allocations of `bytes` bytes in all.
  GPUHEAP_FN void freed_together(simt::uint64_t allocations, simt::uint64_t bytes) const { add_to_stripe<false>(allocations, bytes); }

#if GPUHEAP_HAS_HOST
  // The totals from a copy of the counters in host memory. They are exact if no kernel ran during the copying; otherwise each word was
  // copied at a different moment.
  [[nodiscard]] live_counts read(void const* copy) const {
    auto const* const bytes = static_cast<char const*>(copy);
    live_counts live;
    for (unsigned i = 0; i < num_stripes; ++i) {
      auto const& s = *reinterpret_cast<stripe const*>(bytes + (1 + i) * stride_bytes);
      live.allocations += s.allocations;
      live.bytes += s.bytes;
    }
    // A sum is negative if the copy contains a free, but not the malloc of the same block.
    if (static_cast<simt::int64_t>(live.allocations) < 0) live.allocations = 0;
    if (static_cast<simt::int64_t>(live.bytes) < 0) live.bytes = 0;
    live.peak_bytes = reinterpret_cast<totals const*>(bytes)->peak << quantum_log2_;
    if (live.peak_bytes < live.bytes) live.peak_bytes = live.bytes;
    live.peak_error_bytes = simt::uint64_t{num_stripes} << quantum_log2_;
    return live;
  }
#endif

 private:
  template <bool Up>
  GPUHEAP_FN void add(simt::size_t bytes) const {
    simt::uint64_t sum = bytes;
    unsigned lanes = 1;
    // The sum of 32 sizes below 2^27 bytes fits into the 32 bits of a warp reduction. Each lane adds a larger block by itself.
    if (bytes < simt::size_t{1} << 27) {
      simt::lane_mask const here = simt::active_mask();
      // Lanes that run this code together may hold different heaps, and a compiler may merge the code of allocations with that of frees:
      // lanes that differ from the first one add by themselves.
      simt::uint64_t const key = reinterpret_cast<simt::uintptr_t>(counters_) | (Up ? 1 : 0);
      unsigned const first = simt::lowest_bit(here);
      simt::lane_mask const together = simt::ballot(here, key == simt::shuffle(here, key, first));
      if ((together >> simt::lane_id() & 1) != 0) {
        sum = simt::reduce_add(together, static_cast<simt::uint32_t>(bytes));
        if (simt::lane_id() != first) return;
        lanes = simt::popcount(together);
      }
    }
    add_to_stripe<Up>(lanes, sum);
  }

  template <bool Up>
  GPUHEAP_FN void add_to_stripe(simt::uint64_t allocations, simt::uint64_t sum) const {
    using word = simt::atomic_ref<simt::uint64_t>;
    auto& s = *reinterpret_cast<stripe*>(counters_ + (1 + simt::global_warp() % num_stripes) * stride_bytes);
    // relaxed, all: the counts publish nothing, and the host reads them after the kernel.
    if constexpr (Up) {
      word{s.allocations}.fetch_add(allocations, simt::relaxed);
    } else {
      word{s.allocations}.fetch_sub(allocations, simt::relaxed);
    }
    if (sum == 0) return;
    simt::uint64_t const change = Up ? sum : 0 - sum;
    simt::uint64_t const before = word{s.bytes}.fetch_add(change, simt::relaxed);
    simt::uint64_t const quanta = floor_quanta(before + change) - floor_quanta(before);
    if (quanta != 0) forward(counters_, quanta);
  }

  // The number of whole quanta in `bytes`, a two's complement number. It is rounded down, so that the remainder is in [0, Q) for negative
  // numbers as well.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t floor_quanta(simt::uint64_t bytes) const {
    return static_cast<simt::uint64_t>(static_cast<simt::int64_t>(bytes) >> quantum_log2_);
  }

  GPUHEAP_COLD static void forward(char* counters, simt::uint64_t quanta) {
    using word = simt::atomic_ref<simt::uint64_t>;
    auto& t = *reinterpret_cast<totals*>(counters);
    // relaxed, both: as in add_to_stripe(). The words are two's complement: only a rise to a positive sum can be a peak.
    simt::uint64_t const now = word{t.forwarded}.fetch_add(quanta, simt::relaxed) + quanta;
    bool const rose = static_cast<simt::int64_t>(quanta) > 0;
    if (rose && static_cast<simt::int64_t>(now) > 0) word{t.peak}.fetch_max(now, simt::relaxed);
  }

  char* counters_ = nullptr;
  unsigned quantum_log2_ = 4;
};

// The policy of heap<Allocator> by default: `uncounted` if the allocator itself can tell the live blocks, otherwise `counted`.
template <device_allocator Allocator>
using default_statistics = simt::conditional_t<has_census<Allocator>, uncounted, counted>;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
