// Segments of coalesce_dynamic's superblocks: the width of a header, the places where a payload may begin, and the changes that a free
// makes in the chain of headers.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/coalesce/alignment.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesce_parts {

// The widths and distances that all segments of one superblock share. Pure functions.
struct segment_shape {
  unsigned width = 0;  // bytes of a header: 2, 4 or 8. 0: none
  unsigned unit = 0;   // the distance between two payloads is a multiple of this number of bytes
  unsigned lead = 0;   // bytes from the start of the superblock to the first payload

  // The shape for a warp whose largest request has `bytes` (> 0) bytes.
  [[nodiscard]] GPUHEAP_HD static constexpr segment_shape of(coalesce_alignment policy, simt::size_t bytes) {
    if (policy == coalesce_alignment::strict16) return {8, 16, 16};
    unsigned const alignment = alignment_of(policy, bytes);
    if (alignment <= 2) return {2, 4, 2};
    // The distance of a request that is served alone is its lead, so 4-byte headers hold it however large the request is.
    if (alignment == 4) return {4, 8, 4};
    return {8, alignment, alignment};
  }
  // The shape that follows from the address of a payload: only the width is set, and it is 0 if no payload has such an address.
  [[nodiscard]] GPUHEAP_HD static segment_shape at(coalesce_alignment policy, void const* p) {
    auto const address = reinterpret_cast<simt::uintptr_t>(p);
    if (policy == coalesce_alignment::strict16) return {address % 16 == 0 ? 8u : 0u};
    return {address % 8 == 0 ? 8u : address % 8 == 4 ? 4u : address % 4 == 2 ? 2u : 0u};
  }
  // A payload and the header of the next one, with the padding between.
  [[nodiscard]] GPUHEAP_HD constexpr simt::size_t slot(simt::size_t bytes) const { return simt::round_up_pow2(bytes + width, unit); }
  // The bytes that a request of `bytes` may use.
  [[nodiscard]] GPUHEAP_HD constexpr simt::size_t usable(simt::size_t bytes) const { return slot(bytes) - width; }
};
static_assert(segment_shape::of(coalesce_alignment::natural, 2).slot(2) == 4 &&
              segment_shape::of(coalesce_alignment::natural, 4).slot(4) == 8 &&
              segment_shape::of(coalesce_alignment::natural, 8).slot(8) == 16 &&
              segment_shape::of(coalesce_alignment::paper, 100).slot(100) == 104 &&
              segment_shape::of(coalesce_alignment::strict16, 8).slot(8) == 16 &&
              segment_shape::of(coalesce_alignment::strict16, 9).slot(9) == 32);

// The headers of segments, and the chain that they form. Device, any thread. Every access is atomic, since other threads free segments
// while one walks down the chain.
struct chain {
  static constexpr simt::uint64_t is_free = 1, is_first = 2, is_last = 4;
  static constexpr unsigned flag_bits = 3;
  static constexpr unsigned wide_distance_bits = 21;  // in 8-byte headers; the usable bytes lie above

  // Writes the header of the payload at p. relaxed: headers_are_written() orders the store before the other lanes' accesses, and a thread
  // that gets p from its owner is ordered after the owner.
  GPUHEAP_FN static void make(char* p, segment_shape form, simt::size_t distance, simt::size_t usable, bool first, bool last) {
    simt::uint64_t const flags = (first ? is_first : 0) | (last ? is_last : 0);
    if (form.width == 8) {
      word64(p).store((usable << wide_distance_bits | distance) << flag_bits | flags, simt::relaxed);
    } else if (form.width == 4) {
      word32(p).store(static_cast<simt::uint32_t>(distance << flag_bits | flags), simt::relaxed);
    } else {
      simt::atomic_ref<simt::uint16_t>{word16(p)}.store(static_cast<simt::uint16_t>(distance / 2 << flag_bits | flags), simt::relaxed);
    }
  }
  // Called by all lanes of the group after make(), and before any of them returns.
  GPUHEAP_FN static void headers_are_written(simt::lane_mask group) { simt::sync_warp(group); }

  // The usable bytes of the payload at p, in 8-byte headers. relaxed: the caller got p from the thread that allocated it.
  [[nodiscard]] GPUHEAP_FN static simt::size_t usable_at(char* p) {
    return word64(p).load(simt::relaxed) >> (wide_distance_bits + flag_bits);
  }

  // Frees the payload at p. Sets `base` to the superblock if the caller has to give the superblock back now.
  GPUHEAP_FN static free_status release(char* p, segment_shape form, char*& base) {
    return walk(p, form, base, [](char* at, segment_shape f, simt::uint64_t flag) { return set(at, f, flag); });
  }

 protected:
  // `set(p, form, flag)` sets a flag in the header of the payload at p, and returns the header as it was before.
  template <class Set>
  GPUHEAP_FN static free_status walk(char* p, segment_shape form, char*& base, Set set) {
    simt::uint64_t before = set(p, form, is_free);
    if ((before & is_free) != 0) return free_status::double_free;
    // Ends: each pass goes one segment down the chain, which ends at the first segment: at most 31 passes.
    GPUHEAP_NO_UNROLL
    while ((before & is_last) != 0) {
      if ((before & is_first) != 0) {
        base = p - distance_in(before, form);
        break;
      }
      p -= distance_in(before, form);
      before = set(p, form, is_last);
      // The segment is live, and the thread that frees it continues this walk. It may do so at any time, so this thread accesses the
      // superblock no more.
      if ((before & is_free) == 0) break;
      before |= is_last;
    }
    return free_status::done;
  }

  // consume_release: releases the accesses to the caller's segments, and orders the accesses to other segments before those of the memory's
  // next owner.
  GPUHEAP_FN static simt::uint64_t set(char* p, segment_shape form, simt::uint64_t flag) {
    if (form.width == 8) return word64(p).fetch_or(flag, simt::consume_release);
    if (form.width == 4) return word32(p).fetch_or(static_cast<simt::uint32_t>(flag), simt::consume_release);
    return simt::fetch_or_16(word16(p), static_cast<simt::uint16_t>(flag), simt::acq_rel);
  }
  [[nodiscard]] GPUHEAP_FN static simt::size_t distance_in(simt::uint64_t header, segment_shape form) {
    simt::uint64_t const distance = header >> flag_bits;
    return form.width == 8 ? distance & simt::low_bits(wide_distance_bits) : form.width == 4 ? distance : distance * 2;
  }

  [[nodiscard]] GPUHEAP_FN static simt::global_ref<simt::uint64_t> word64(char* p) {
    return simt::global_ref<simt::uint64_t>{reinterpret_cast<simt::uint64_t*>(p)[-1]};
  }
  [[nodiscard]] GPUHEAP_FN static simt::global_ref<simt::uint32_t> word32(char* p) {
    return simt::global_ref<simt::uint32_t>{reinterpret_cast<simt::uint32_t*>(p)[-1]};
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint16_t& word16(char* p) { return reinterpret_cast<simt::uint16_t*>(p)[-1]; }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::coalesce_parts
