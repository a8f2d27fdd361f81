// Mutants of FDGMalloc: an arena of the paper's shape, reduced to the parts that a mistake needs. Each differs from the right one in a
// single step.
#pragma once

#include "mutant.hpp"

#include <gpuheap/allocators/backing_reference.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace hazards {

using gpuheap::backing_reference;
using gpuheap::released_memory;
using gpuheap::structures::warp_group;

struct right_steps {
  static constexpr bool sign_extends = false;     // addresses are broadcast in halves of which the low one is signed (hazard 1)
  static constexpr bool looks_again = false;      // a step takes the lanes that are there, not those that were (hazard 2)
  static constexpr bool keeps_slots = false;      // requests of absent lanes stay in the record (hazard 3)
  static constexpr bool index_is_plain = false;   // the index is loaded and stored (hazard 4)
  static constexpr bool counts_lanes = false;     // end() waits for as many lanes as the highest one's number says (hazard 5)
  static constexpr bool leader_leaves = false;    // the leader returns on failure, before the others know (hazard 6)
  static constexpr bool newest_only = false;      // of several lists only the newest is released (hazard 8)
  static constexpr bool record_per_call = false;  // (hazard 9)
};

// Arenas of 512 bytes, lists of four blocks, 16 warps. Requests of a warp add up to less than an arena.
template <class Steps>
class arena_of_steps {
 public:
  static constexpr gpuheap::allocator_traits traits{.name = "mutant", .free = gpuheap::frees::collectively, .warp_level = true};
  static constexpr unsigned arena_bytes = 512;

  GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    warp_group const group{simt::active_mask()};
    record& r = records_[simt::global_warp()];
    auto const need = static_cast<unsigned>(simt::round_up_pow2(bytes, 16));
    if constexpr (Steps::counts_lanes) {
      simt::atomic_ref<unsigned>{r.participants}.fetch_max(simt::highest_bit(group.mask) + 1, simt::relaxed);
    }
    unsigned total = 0, before = group.sum_before(need, total);
    if constexpr (Steps::keeps_slots) {
      simt::plain_write(r.slots[simt::lane_id()], need);
      simt::sync_warp(group.mask);
      before = total = 0;
      for (unsigned lane = 0; lane < simt::warp_lanes; ++lane) {
        total += simt::plain_read(r.slots[lane]);
        if (lane < simt::lane_id()) before += simt::plain_read(r.slots[lane]);
      }
      simt::sync_warp(group.mask);
    }
    if constexpr (Steps::record_per_call) {
      if (group.leads()) simt::atomic_ref<simt::uint64_t>{r.area}.store(0, simt::relaxed);
    }
    // Ends: as malloc of the real one.
    while (true) {
      simt::uint64_t at = 0;
      bool failed = false;
      if (group.leads()) {
        at = take(r, total);
        failed = at == 0 && !renew(r, total);
        if (Steps::leader_leaves && failed) return nullptr;
      }
      if (Steps::looks_again) {
        simt::lane_mask const now = simt::active_mask();
        at = simt::shuffle(now, at, simt::lowest_bit(now));
        failed = simt::shuffle(now, static_cast<unsigned>(failed), simt::lowest_bit(now)) != 0;
      } else {
        simt::sync_warp(group.mask);
        at = group.from_leader(at);
        failed = group.from_leader(static_cast<unsigned>(failed)) != 0;
      }
      if (failed) return nullptr;
      if (at == 0) continue;
      if (Steps::sign_extends) {
        auto const low = static_cast<int>(static_cast<unsigned>(at));
        at = (at & ~simt::uint64_t{0xffffffff}) | static_cast<simt::uint64_t>(static_cast<long long>(low));
      }
      return reinterpret_cast<void*>(at + before);
    }
  }
  GPUHEAP_FN void free(void*) const {}

  GPUHEAP_FN released_memory release_warp() const {
    simt::lane_mask const here = simt::active_mask();
    record& r = records_[simt::global_warp()];
    simt::sync_warp(here);
    if constexpr (Steps::counts_lanes) {
      // Each lane that calls is one; the last of those that were counted releases.
      if (simt::atomic_ref<unsigned>{r.participants}.fetch_sub(1, simt::acq_rel) != 1) return {};
    } else {
      if (simt::lane_id() != simt::lowest_bit(here)) return {};
    }
    list* at = nullptr;
    lock(r).run([&] {
      at = simt::plain_read(r.newest);
      simt::plain_write(r.newest, static_cast<list*>(nullptr));
      simt::atomic_ref<simt::uint64_t>{r.area}.store(0, simt::relaxed);
    });
    while (at != nullptr) {
      for (unsigned i = 0; i < at->count; ++i) backing_.free(at->blocks[i]);
      list* const older = at->older;
      backing_.free(at);
      at = Steps::newest_only ? nullptr : older;
    }
    return {};
  }

  static simt::size_t min_region_bytes() { return 16 * 256 + backing_reference::min_region_bytes(); }
  static arena_of_steps create(gpuheap::memory::region region, gpuheap::stream_ref stream) {
    arena_of_steps a;
    a.records_ = static_cast<record*>(region.base);
    simt::fill(region.base, 0, 16 * 256, stream);
    a.backing_ = backing_reference::create({static_cast<char*>(region.base) + 16 * 256, region.bytes - 16 * 256}, stream);
    return a;
  }
  gpuheap::allocator_footprint footprint(gpuheap::stream_ref stream) const { return backing_.footprint(stream); }

 private:
  struct list {
    unsigned count;
    list* older;
    void* blocks[4];
  };
  struct alignas(256) record {
    simt::uint64_t area;  // address * 2^12 + bytes used
    simt::uint32_t lock;
    unsigned participants;
    list* newest;
    unsigned slots[32];
  };
  static_assert(sizeof(record) == 256);
  static gpuheap::structures::spin_lock lock(record& r) { return {&r.lock}; }

  static simt::uint64_t room_in(simt::uint64_t area) { return area == 0 ? 0 : arena_bytes - (area & 0xfff); }
  GPUHEAP_FN static simt::uint64_t take(record& r, unsigned total) {
    simt::atomic_ref<simt::uint64_t> const word{r.area};
    simt::uint64_t area = word.load(simt::acquire);
    while (room_in(area) >= total) {
      if (Steps::index_is_plain) {
        word.store(area + total, simt::release);
        return (area >> 12) + (area & 0xfff);
      }
      if (word.compare_exchange(area, area + total, simt::acquire, simt::relaxed)) return (area >> 12) + (area & 0xfff);
    }
    return 0;
  }
  GPUHEAP_FN bool renew(record& r, unsigned total) const {
    void* const block = backing_.malloc(arena_bytes);
    auto* spare = static_cast<list*>(backing_.malloc(sizeof(list)));
    bool done = false, used = false;
    if (block != nullptr && spare != nullptr) {
      lock(r).run([&] {
        simt::atomic_ref<simt::uint64_t> const word{r.area};
        done = true;
        if (room_in(word.load(simt::relaxed)) >= total) return;
        list* at = simt::plain_read(r.newest);
        if (at == nullptr || simt::plain_read(at->count) == 4) {
          simt::plain_write(spare->older, at);
          simt::plain_write(spare->count, 0u);
          simt::plain_write(r.newest, spare);
          at = spare;
          spare = nullptr;
        }
        unsigned const count = simt::plain_read(at->count);
        simt::plain_write(at->blocks[count], block);
        simt::plain_write(at->count, count + 1);
        word.store(simt::uint64_t{reinterpret_cast<std::uintptr_t>(block)} << 12, simt::release);
        used = true;
      });
    }
    if (!used) backing_.free(block);
    backing_.free(spare);
    return done;
  }

  record* records_ = nullptr;
  backing_reference backing_{};
};
using right_arena = arena_of_steps<right_steps>;

}  // namespace hazards
