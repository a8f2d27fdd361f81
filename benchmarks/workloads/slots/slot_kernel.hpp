// Slots that hold blocks from one kernel to the next. Which threads work on which slots, what they free and what they take is data, so that
// one kernel serves all cases whose blocks change hands: a block's owner is a thread that works on its slot.
//
// Slot s of set t is slots[s * sets + t]. In one launch a set is worked on by at most one thread, so that nothing here is shared.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>

#include "harness/random.hpp"
#include "harness/tagged_blocks.hpp"

namespace gpuheap::bench::slots {

// A block with what is written in it: word w holds tag + w.
struct kept_block {
  simt::uint64_t* words;  // nullptr: the slot is empty
  simt::uint32_t bytes;
  simt::uint32_t tag;
};

// The work of the threads of a block. Thread t works on set (t + shift) % sets, in `passes` passes over its slots first .. first + count -
// 1: in their order, or on a random one in each pass. A block that is there is freed with a probability, and an empty slot is filled with a
// probability.
struct task {
  simt::uint32_t shift = 0;
  simt::uint32_t first = 0, count = 0;
  simt::uint32_t passes = 0;
  bool at_random = false;
  simt::uint32_t free_percent = 0, take_percent = 0;
};

struct slot_launch {
  task tasks[2];  // of blocks with even and with odd numbers
  simt::uint32_t smallest_bytes = tagged_smallest_bytes, largest_bytes = tagged_smallest_bytes;
  bool whole_contents = false;  // write and check every word of a block; otherwise the first
  simt::uint64_t number = 0;    // of the launch: for draws
};

// largest_bytes >= 16.
template <class Ref>
struct work_on_slots {
  Ref heap;
  kept_block* slots;
  simt::uint32_t sets;
  slot_launch what;
  random_sequence random;
  block_tally* tally;

  GPUHEAP_FN void operator()(unsigned thread) const {
    task const& mine = what.tasks[simt::block_id() & 1];
    simt::uint32_t const set = (thread + mine.shift) % sets;
    GPUHEAP_NO_UNROLL
    for (simt::uint32_t pass = 0; pass < mine.passes; ++pass) {
      simt::uint64_t const draw = random.bits((what.number << 48) + (simt::uint64_t{pass} * sets + thread));
      simt::uint32_t const slot = mine.first + (mine.at_random ? scaled(draw >> 32, mine.count) : pass % mine.count);
      kept_block& here = slots[simt::size_t{slot} * sets + set];
      kept_block held = here;
      if (held.words != nullptr) {
        if (scaled(draw & 0xffff, 100, 16) >= mine.free_percent) continue;
        deallocate(held);
        held.words = nullptr;
      }
      if (scaled(draw >> 16 & 0xffff, 100, 16) < mine.take_percent) held = take(mix_bits(draw));
      here = held;
    }
  }

 private:
  // A number of 0..bound-1 from `bits` random bits.
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t scaled(simt::uint64_t draw, simt::uint32_t bound, unsigned bits = 32) {
    return static_cast<simt::uint32_t>(draw * bound >> bits);
  }

  [[nodiscard]] GPUHEAP_FN kept_block take(simt::uint64_t draw) const {
    simt::uint32_t const bytes = what.smallest_bytes + scaled(draw >> 32, what.largest_bytes - what.smallest_bytes + 1);
    kept_block const taken{static_cast<simt::uint64_t*>(heap.malloc(bytes)), bytes, static_cast<simt::uint32_t>(draw)};
    if (taken.words == nullptr) {
      count(tally->failed_requests, 1);
      return taken;
    }
    if (reinterpret_cast<simt::uintptr_t>(taken.words) % Ref::allocator_type::traits.min_alignment != 0) count(tally->misaligned, 1);
    for (simt::uint32_t w = 0; w < bytes / 8; w += stride(bytes)) taken.words[w] = simt::uint64_t{taken.tag} + w;
    return taken;
  }

  GPUHEAP_FN void deallocate(kept_block const& held) const {
    simt::uint32_t lost = 0;
    for (simt::uint32_t w = 0; w < held.bytes / 8; w += stride(held.bytes)) lost += held.words[w] != simt::uint64_t{held.tag} + w;
    if (lost != 0) count(tally->lost, lost);
    heap.free(held.words);
  }

  [[nodiscard]] GPUHEAP_FN simt::uint32_t stride(simt::uint32_t bytes) const { return what.whole_contents ? 1 : bytes / 8; }

  // relaxed: tallies that the host reads after the kernel. Rare, so each is added where it happens.
  GPUHEAP_FN static void count(simt::uint64_t& tallied, simt::uint64_t more) {
    simt::atomic_ref<simt::uint64_t>{tallied}.fetch_add(more, simt::relaxed);
  }
};

}  // namespace gpuheap::bench::slots
