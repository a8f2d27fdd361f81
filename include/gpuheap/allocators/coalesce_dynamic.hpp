// `coalesce_dynamic`: the lanes of a warp that allocate at the same moment, in any sizes, get adjacent segments of one *superblock*. One of
// them takes the superblock from another allocator, the upstream allocator (the template parameter `Backing`). The program need not know
// which lanes call together.
//   N. Blach, M. Erhart, F. Memedi, A. Schaefer, "Coalescing memory allocations for GPU MPI", ETH Zurich (dynamic coalescing)
//
// Layout of a superblock, at an address that the upstream allocator gave:
//   padding | header 0 | payload 0 | padding | header 1 | payload 1 | ...        a header ends where its payload begins
//   header  {usable bytes : 40 (8-byte headers only), distance : 21, 29 or 13, last : 1, first : 1, free : 1}
//   The distance leads to the payload before; in the first header, it leads to the superblock. It is counted in bytes, and in 2-byte
//   headers in pairs of bytes. All headers of a superblock have one width, the greatest that a lane needs. A pointer's lowest bits say
//   which width. coalesce/segment.hpp defines the widths:
//     strict16   8 bytes, payloads aligned to 16
//     natural    up to 3 bytes: 2, payloads at 2 mod 4. Up to 7: 4, at 4 mod 8. Up to 15: 8, at 0 mod 8. Others: 8, at 0 mod 16
//     paper      up to 3 bytes: 2, payloads at 2 mod 4. All others: 4, at 4 mod 8
//
// malloc:    the lanes that call together are the group (one captured mask); the lowest leads. A prefix sum over their sizes tells each
//            lane where its segment begins. The leader takes the superblock, each lane writes its header, and no lane returns before all
//            headers are written. A request of more than largest_piece_bytes is served alone, and so is each lane if the upstream allocator
//            refuses. A request that is served alone gets a superblock of one segment.
// free:      any thread. Sets `free` in the header. If the header had `last`, the caller has the duty to walk: it goes down the chain, sets
//            `last` in the segment before, and continues if that segment is free already. A thread that reaches the first segment gives the
//            superblock back. Exactly one thread does so: the thread that frees a segment and the thread that passes `last` on to it change
//            the same word by one read-modify-write each. So either the first thread sees `last` and walks, or the second sees `free` and
//            continues. The second thread does not access a live segment after it has set `last` there, since another thread may free the
//            superblock.
// Reuse:     a superblock is freed once all its segments are; one live segment keeps all of it. Then the upstream allocator reuses it.
// Progress:  as the upstream allocator. The additional steps are wait-free, except that the lanes of a group wait for each other in malloc.
//            A walk has at most 31 steps.
// Misuse:    a second free is reported as long as the superblock exists. Later it is not reported, so the traits do not promise it.
//
// Different from the paper:
//   - both flags are set by an atomic `or`. In the paper one of them is set by a compare-and-swap; a plain store of the other flag can undo
//     it, and then no thread has the duty;
//   - 2-byte headers are changed by a compare-and-swap of two bytes, since one of four bytes would reach into a payload;
//   - no lane returns before all lanes have written their headers: otherwise a lane might free its segment and walk to one that has no
//     header yet;
//   - the width follows from the alignment. The published width is the smallest that the distance fits into, which can misalign a pointer
//     or a double. The policy `paper` is close to that, keeps 4-byte types aligned, and is not the default;
//   - an 8-byte header also holds the usable bytes of its segment.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/coalesce/segment.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The default alignment suits every type.
struct coalesce_dynamic_config {
  coalesce_alignment alignment = coalesce_alignment::strict16;
  unsigned largest_piece_bytes = 4096;  // a larger request is served alone, since a live segment keeps its superblock. Below 1 MiB; below
                                        // 16 KiB if not strict16
};

// `Chain`: the operations on headers (coalesce/segment.hpp). Tests pass others.
template <coalesce_dynamic_config Config = coalesce_dynamic_config{}, class Backing = default_backing, class Chain = coalesce_parts::chain>
class basic_coalesce_dynamic {
  using shape = coalesce_parts::segment_shape;
  static constexpr bool strict = Config.alignment == coalesce_alignment::strict16;
  static constexpr simt::size_t largest_request = simt::size_t{1} << 39;  // no heap is so large, and 40 bits hold it
  static_assert(Backing::traits.min_alignment >= 16 && Config.largest_piece_bytes <= (strict ? 1u << 20 : 1u << 14) - 64);

 public:
  static constexpr allocator_traits traits{
      .name = "coalesce_dynamic",
      .title = "Coalesced dynamically",
      .paper = "Blach, Erhart, Memedi, Schaefer: Coalescing memory allocations for GPU MPI, ETH Zurich",
      .year = 2022,
      .variant = "a chain of headers; groups found in each call",
      .reuse = "as the upstream allocator says, once all segments of a superblock are free",
      .min_alignment = strict ? 16 : 1,
      .process_wide = Backing::traits.process_wide,
      .reuses_singly = false,
      .full_reuse = Backing::traits.full_reuse,
  };
  // The same allocator over another upstream allocator.
  template <class Upstream>
  using over = basic_coalesce_dynamic<Config, Upstream, Chain>;

  // Returns memory of `bytes` > 0 bytes; nullptr if the upstream allocator has none. Lanes of a warp that call together share a superblock.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    bool const small = bytes <= Config.largest_piece_bytes;
    // The group: the lanes that call on this heap. A request that is too large is served alone.
    auto const group = structures::warp_group::of_equal(simt::active_mask(), small ? home_ : 1);
    bool together = small && group.size() > 1;
    place at = together ? place_in(group, static_cast<simt::uint32_t>(bytes)) : alone(bytes);
    // Ends: two passes at most, of which the second serves the caller alone. The loop keeps one call site of the upstream allocator.
    GPUHEAP_NO_UNROLL
    while (true) {
      char* base = nullptr;
      if (at.first && bytes <= largest_request) base = static_cast<char*>(backing_.malloc(at.superblock_bytes));
      if (together) {
        // The other lanes acquire what the leader acquired with the memory.
        simt::sync_warp(group.mask);
        base = group.from_leader(base);
      }
      if (base != nullptr) {
        char* const p = base + at.offset;
        Chain::make(p, at.form, at.distance, at.form.usable(bytes), at.first, at.last);
        // All headers are written before a lane can free its segment and read another segment's header.
        if (together) Chain::headers_are_written(group.mask);
        return p;
      }
      if (!together) return nullptr;
      together = false;
      at = alone(bytes);
    }
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    shape const form = shape::at(Config.alignment, p);
    if (form.width == 0) return free_status::foreign;
    char* base = nullptr;
    free_status const status = Chain::release(static_cast<char*>(p), form, base);
    return base != nullptr ? detail::free_in(backing_, base) : status;
  }

  // Returns the bytes that the owner of the live block at p may use; 0 for nullptr.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires strict {
    return p == nullptr ? 0 : Chain::usable_at(static_cast<char*>(p));
  }
  static constexpr bool rounded_size_is_exact = strict;
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) requires strict {
    return bytes > largest_request ? bytes : shape::of(Config.alignment, bytes).usable(bytes);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() { return Backing::min_region_bytes(); }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }
  [[nodiscard]] static basic_coalesce_dynamic create(memory::region region, stream_ref stream) {
    basic_coalesce_dynamic a;
    a.home_ = reinterpret_cast<simt::uintptr_t>(region.base);
    a.backing_ = Backing::create(region, stream);
    return a;
  }
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    return backing_.footprint(stream);
  }
  // The upstream allocator's report. No structure lists the superblocks, so this allocator checks nothing of its own.
  [[nodiscard]] auto verify(stream_ref stream) const requires has_verify<Backing> { return backing_.verify(stream); }
#endif

 private:
  // The place of a segment in its superblock.
  struct place {
    shape form;
    simt::size_t superblock_bytes;
    simt::size_t offset;    // from the superblock to the payload
    simt::size_t distance;  // from the payload before, or from the superblock to the first payload
    bool first, last;
  };
  // The place of a request that is served alone.
  [[nodiscard]] GPUHEAP_FN static place alone(simt::size_t bytes) {
    shape const form = shape::of(Config.alignment, bytes);
    return {form, form.lead + form.usable(bytes), form.lead, form.lead, true, true};
  }
  // The place of this lane's segment among those of the group. All lanes of the group call.
  [[nodiscard]] GPUHEAP_FN static place place_in(structures::warp_group group, simt::uint32_t bytes) {
    shape const form = shape::of(Config.alignment, strict ? bytes : simt::reduce_max(group.mask, bytes));
    auto const slot = static_cast<simt::uint32_t>(form.slot(bytes));
    simt::uint32_t total = 0;
    simt::uint32_t const before = group.sum_before(slot, total);
    // The lane before this one; the first lane has none.
    simt::lane_mask const below = group.mask & ((simt::lane_mask{1} << simt::lane_id()) - 1);
    simt::uint32_t const slot_before = simt::shuffle(group.mask, slot, below == 0 ? simt::lane_id() : simt::highest_bit(below));
    return {form,
            form.lead + total - form.width,
            form.lead + before,
            below == 0 ? form.lead : slot_before,
            below == 0,
            simt::lane_id() == simt::highest_bit(group.mask)};
  }

  simt::uint64_t home_ = 0;  // a number that is different in each heap: the region's address
  Backing backing_;
};

// The allocator over any other: `coalesce_dynamic_over<gpuheap::sharded_spans>`. Without an argument, the upstream allocator is the CUDA
// toolkit's heap, as published.
template <class Upstream = default_backing>
using coalesce_dynamic_over = basic_coalesce_dynamic<coalesce_dynamic_config{}, Upstream>;

using coalesce_dynamic = basic_coalesce_dynamic<>;
static_assert(device_allocator<coalesce_dynamic> && device_allocator<coalesce_dynamic_over<refusing_backing>>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
