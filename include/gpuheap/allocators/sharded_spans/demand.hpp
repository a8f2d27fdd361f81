// The request of a group of lanes, and the result of a refill. Each is packed into one word, since it lives in registers across long chains
// of calls.
#pragma once

#include <gpuheap/allocators/sharded_spans/layout.hpp>
#include <gpuheap/allocators/sharded_spans/policy.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded {

// ---- this launch and this warp

// Warps of this launch.
[[nodiscard]] GPUHEAP_FN inline unsigned warps_of_launch() {
  return simt::num_blocks() * ((simt::threads_per_block() + simt::warp_lanes - 1) / simt::warp_lanes);
}
// A hash of this warp's number, which spreads consecutive warps evenly.
[[nodiscard]] GPUHEAP_FN inline unsigned warp_hash() { return simt::global_warp() * 0x9e3779b9u; }
// The shard, of 2^lg shards, in which this warp claims first.
[[nodiscard]] GPUHEAP_FN inline unsigned shard_of_warp(unsigned lg) { return (warp_hash() >> 27) >> (5 - lg); }

// The request of a group of lanes:
//
//   bit  0       6       10       16      22          25             30      31
//        | class | shard | wanted | lanes | lg shards | lg alignment | alone | uniform
//
//   wanted        lanes that have no slot yet
//   lanes         lanes that asked
//   lg shards     log2 of the shards of the class that the launch uses for groups like this one
//   lg alignment  each slot shall be aligned to 16 << this bytes
//   alone         the group is one lane, and no other lane of the warp asked in the same call
//   uniform       the group has nearly all lanes of the warp that asked
struct demand {
  unsigned bits = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr demand of(unsigned c, unsigned k, unsigned wanted, unsigned lanes, unsigned lg,
                                                      unsigned lg_alignment, bool is_uniform) {
    return {c | k << 6 | wanted << 10 | lanes << 16 | lg << 22 | lg_alignment << 25 | unsigned{is_uniform} << 31};
  }
  // The demand of a lane that asks alone.
  [[nodiscard]] GPUHEAP_HD static constexpr demand of_lone_lane(unsigned c, unsigned k, unsigned lg, unsigned lg_alignment) {
    return {of(c, k, 0, 1, lg, lg_alignment, false).bits | 1u << 30};
  }
  // The demand of the same group at another shard.
  [[nodiscard]] GPUHEAP_HD constexpr demand at(unsigned c, unsigned k, unsigned wanted) const {
    return {(bits & ~0xffffu) | c | k << 6 | wanted << 10};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return bits & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned shard() const { return bits >> 6 & 15; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned wanted() const { return bits >> 10 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lanes() const { return bits >> 16 & 63; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_shards() const { return bits >> 22 & 7; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_uniform() const { return bits >> 31 != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_alone() const { return (bits >> 30 & 1) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned lg_alignment() const { return bits >> 25 & 31; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_aligned() const { return lg_alignment() != 0; }
  // Whether all slots of class c are aligned as asked.
  [[nodiscard]] GPUHEAP_HD constexpr bool suits(unsigned c) const {
    return (size_classes::slot_bytes(c) & ((16u << lg_alignment()) - 1)) == 0;
  }
};

// The result of one step of a refill, in one of two forms.
//
// The span that the step found, as a shard word of which nothing is claimed; 0 if it found none. The lowest bits of such a word are 0, so
// they hold flags:
//   open       a relocation is open, which the caller ends
//   stale      the span was the last one in its leaf of the partial list, so the leaf's summary bit has to be cleared
// Or, if `slow_path` is set and `open` is not, the answer that the caller has to call refill_slowly():
//   pages      from bit 8 on: the pages that a new span should have
//   cursor     from bit 32 on: the page at which the last refill's samples of partial spans ended
//   reuses, memory_is_low   as in refill_plan
//   takes_over before it does, it shall look for an idle span of another class, of so many pages
//   ending     the shard's span is used up, so the refill will open a relocation
struct refill_result {
  static constexpr uint64_t open = 1, stale = 2, slow_path = 4, reuses = 8, memory_is_low = 16, ending = 32, over = 64;
  uint64_t bits = 0;

  [[nodiscard]] GPUHEAP_HD static constexpr refill_result of(uint64_t what, bool is_open) { return {what | (is_open ? open : 0)}; }
  [[nodiscard]] GPUHEAP_HD static constexpr refill_result on_slow_path(unsigned pages, bool reuses_first, bool is_memory_low,
                                                                       bool ends_span, unsigned cursor, bool takes_over) {
    return {uint64_t{cursor} << 32 | uint64_t{pages} << 8 | slow_path | (reuses_first ? reuses : 0) | (is_memory_low ? memory_is_low : 0) |
            (ends_span ? ending : 0) | (takes_over ? over : 0)};
  }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_open() const { return (bits & open) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_stale() const { return (bits & stale) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr shard_word span() const { return {bits & ~(open | stale)}; }

  [[nodiscard]] GPUHEAP_HD constexpr bool takes_slow_path() const { return (bits & (slow_path | open)) == slow_path; }
  [[nodiscard]] GPUHEAP_HD constexpr bool may_reuse() const { return takes_slow_path() && (bits & reuses) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool takes_over() const { return takes_slow_path() && (bits & over) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_memory_low() const { return (bits & memory_is_low) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr bool ends_span() const { return (bits & ending) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned pages() const { return static_cast<unsigned>(bits) >> 8; }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned cursor() const { return static_cast<unsigned>(bits >> 32); }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::sharded
