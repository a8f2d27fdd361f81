// The state of a Gallatin heap, in the heap's memory, and the slow paths of malloc and free: fetching blocks for slots, requests of more
// than one slice, and putting blocks back.
#pragma once

#include <gpuheap/allocators/gallatin/segments.hpp>
#include <gpuheap/allocators/gallatin/slots.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// The slices of one block that a group of lanes got, from `first` on: as many as were requested, or fewer if the block has no more. If
// none(), the group got no slices: for good if is_final(), otherwise for the moment.
struct grant {
  uint32_t block = no_block;
  uint32_t first = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr grant not_yet() { return {no_block, 1}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_final() const { return block != no_block || first == 0; }
  // The grant as one value, for a shuffle.
  [[nodiscard]] GPUHEAP_HD constexpr uint64_t packed() const { return uint64_t{block} << 32 | first; }
  [[nodiscard]] GPUHEAP_HD static constexpr grant unpacked(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
  }
};

// The state. Device, any thread.
template <gallatin_config Config, class Parts>
struct heap_state : segment_pool<Config, Parts, typename Parts::template state<Config, Parts>> {
  using base = segment_pool<Config, Parts, typename Parts::template state<Config, Parts>>;
  using slot_type = typename Parts::slot;
  using base::at;
  using base::num_classes;

  static constexpr unsigned every_class = num_classes;

  // ---- slices. The leader of a group repeats these steps until it has an answer:
  //   1. takes slices of the block in its slot;
  //   2. if that block has none: waits if another thread is fetching a block for the slot, and otherwise fetches one by refill();
  //   3. if refill() finds no block, or another attempt that began after the request has failed: takes slices of other slots' blocks, or
  //      gives up.
  // The thread that fetches a block may wait for the growth lock, whose holder waits for no thread.

  // Takes slices of class c from other slots than i, for up to n requests of 2^lg_k slices each (lg_k > 0 in the top class only). Reads
  // each slot once. If an attempt is under way in a slot, waits until it has ended, since it may have got the last block.
  [[nodiscard]] GPUHEAP_COLD grant take_from_others(unsigned c, unsigned lg_k, unsigned n, unsigned i) {
    unsigned const num_slots = at.num_slots(c);
    // Ends: num_slots - 1 passes.
    GPUHEAP_NO_UNROLL
    for (unsigned j = i + 1 == num_slots ? 0 : i + 1; j != i; j = j + 1 == num_slots ? 0 : j + 1) {
      slot_word seen = at.slot(c, j).look();
      uint32_t const attempt = seen.generation();
      simt::back_off pause;
      // Ends: the thread that made the slot busy ends its attempt: it waits for a lock at most, whose holder waits for no thread. Blocking.
      GPUHEAP_NO_UNROLL
      while (seen.is_busy() && seen.generation() == attempt) {
        pause.wait();
        seen = at.slot(c, j).look();
      }
      grant const got = base::self().take_from_slot(seen, c, lg_k, n);
      if (!got.none()) return got;
    }
    return {};
  }

  // Takes slices of the block in a slot, if the block has some. The block's word is read first, so that no thread adds to the count of an
  // exhausted block.
  [[nodiscard]] GPUHEAP_COLD grant take_from_slot(slot_word seen, unsigned c, unsigned lg_k, unsigned n) {
    if (!seen.has_block()) return {};
    block_word const now = at.block(seen.block()).look();
    if (!now.has_slices_of(c) || now.count() + (1u << lg_k) > at.num_slices()) return {};
    unsigned const wanted = n << lg_k;
    return base::self().settle(seen.block(), c, lg_k, wanted, at.block(seen.block()).take(wanted));
  }
  // Decides about `wanted` slices that the caller took from a block whose word was `before`. The caller keeps slices for whole requests of
  // 2^lg_k, and gives up the others: the block's last ones, if they are too few for a request, and all of them if the block has changed its
  // class since its slot was read.
  [[nodiscard]] GPUHEAP_FN grant settle(uint32_t id, unsigned c, unsigned lg_k, unsigned wanted, block_word before) {
    unsigned const first = before.count(), all = at.num_slices();
    if (before.state() != mode::open || first >= all) return {};
    unsigned const end = wanted < all - first ? first + wanted : all;
    unsigned const used = before.has_slices_of(c) ? (end - first) >> lg_k << lg_k : 0;
    if (first + used != end && at.block(id).give_up(first + used, end)) base::self().put_back(id, before.size_class());
    return used == 0 ? grant{} : grant{id, first};
  }
  // settle() for the fast path, not inlined: called if the block has another class, or too few slices.
  [[nodiscard]] GPUHEAP_COLD grant settle_single(uint32_t id, unsigned c, unsigned wanted, block_word before) {
    return settle(id, c, 0, wanted, before);
  }

  // Puts a new block into slot i in place of the one in `seen`, and takes slices of it for up to n requests. A block without taken slices
  // would be idle, and other threads might take it out of its slot again and again. Returns not_yet() if another thread replaces the block,
  // and a final none() if there is no block.
  [[nodiscard]] GPUHEAP_COLD grant refill(unsigned c, unsigned lg_k, unsigned n, unsigned i, slot_word seen) {
    slot_type const where = at.slot(c, i);
    // A block with too few slices for the caller stays in the slot for other threads until there is a new one, unless it is idle.
    bool const kept = seen.has_block() && has_slices(seen.block(), c), idle = kept && at.block(seen.block()).is_idle();
    if (!where.begin(seen, kept && !idle)) return grant::not_yet();
    if (idle) (void)retire(seen.block());
    // If a request takes one slice, idle blocks of the class stay in their slots: take_from_others() finds them. If it takes several, an
    // idle block of the class may have too few, so such blocks leave their slots too.
    block_claim const got = base::self().obtain_or_flush(c, 1, lg_k == 0 ? c : every_class);
    if (got.count == 0) {
      where.end(seen, kept && !idle ? seen.block() : no_block, true);
      return {};
    }
    uint32_t const id = base::take_home(got.segment, i);
    if (c == at.top_class) separate(id);
    unsigned const most = at.num_slices() >> lg_k;
    at.block(id).open(c, (n < most ? n : most) << lg_k);
    where.end(seen, id, false);
    if (kept && !idle) (void)retire(seen.block());
    return {id, 0};
  }
  [[nodiscard]] GPUHEAP_FN bool has_slices(uint32_t id, unsigned c) const {
    block_word const now = at.block(id).look();
    return now.has_slices_of(c) && now.count() < at.num_slices();
  }

  // Gives up the slices of a block that were not taken. Returns whether the block's segment became free by that.
  GPUHEAP_FN bool retire(uint32_t id) {
    unsigned c = 0;
    return at.block(id).retire(c) && base::self().put_back(id, c);
  }

  // Claims up to `wanted` blocks of class c in one segment. While there is no such block, idle blocks of all classes but `but`
  // (every_class: of all classes) leave their slots.
  [[nodiscard]] GPUHEAP_FN block_claim obtain_or_flush(unsigned c, unsigned wanted, unsigned but) {
    structures::relocation_count const moves = base::relocations();
    simt::back_off pause;
    // Ends: a pass that does not return moved an idle block out of its slot, or saw a relocation by another thread, which waits for no
    // thread. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      auto const before = moves.read_begin();
      block_claim const got = base::obtain(c, wanted);
      if (got.count != 0) return got;
      if (base::self().flush(but, false)) continue;
      if (moves.read_end() == before && moves.quiet(before)) return {};
      pause.wait();
    }
  }

  // Takes idle blocks of all classes but `but` out of their slots, and puts them back into their segments: all of them if `all`, otherwise
  // until a segment becomes free. Returns whether it took any.
  [[nodiscard]] GPUHEAP_COLD bool flush(unsigned but, bool all) {
    bool any = false, enough = false;
    // Ends: num_classes passes. The largest blocks come first, since they free segments soonest.
    GPUHEAP_NO_UNROLL
    for (unsigned c = num_classes; c-- != 0 && !enough;) {
      if (c == but) continue;
      unsigned const num_slots = at.num_slots(c);
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i != num_slots && !enough; ++i) {
        slot_word const seen = at.slot(c, i).look();
        if (!seen.has_block() || seen.is_busy() || !at.block(seen.block()).is_idle()) continue;
        base::relocations().begin();
        if (at.slot(c, i).remove(seen)) {
          any = true;
          enough = retire(seen.block()) && !all;
        }
        base::relocations().end();
      }
    }
    return any;
  }

  // ---- requests that are too large for slices of the top class

  // Returns a whole block or a run of segments for `bytes` bytes; nullptr if there is none. The lanes of `here` call together, and those
  // that want blocks of the same class take them together.
  [[nodiscard]] GPUHEAP_COLD void* take_large(simt::lane_mask here, size_t bytes) {
    unsigned const c = bytes <= at.segment_bytes() ? at.class_of_block(bytes) : num_classes;
    auto const group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(this) | c);
    if (c != num_classes) return take_blocks(group, c);
    if (bytes > size_t{at.num_segments} << at.lg_segment()) return nullptr;
    auto const k = static_cast<uint32_t>((bytes + at.segment_bytes() - 1) >> at.lg_segment());
    structures::relocation_count const moves = base::relocations();
    simt::back_off pause;
    // Ends: as in obtain_or_flush().
    GPUHEAP_NO_UNROLL
    while (true) {
      auto const before = moves.read_begin();
      void* const p = base::self().take_run(k);
      if (p != nullptr) return p;
      if (base::self().flush(every_class, true)) continue;
      if (moves.read_end() == before && moves.quiet(before)) return nullptr;
      pause.wait();
    }
  }

  // Takes a whole block for each lane of the group, or only for those of the lowest ranks if there are not enough. Returns the lane's
  // block, or nullptr.
  [[nodiscard]] GPUHEAP_FN void* take_blocks(structures::warp_group group, unsigned c) {
    unsigned const rank = group.rank();
    void* p = nullptr;
    unsigned got = 1;
    // Ends: a pass that does not end the loop served a lane.
    GPUHEAP_NO_UNROLL
    for (unsigned served = 0; served != group.size() && got != 0; served += got) {
      block_claim claim;
      if (group.leads()) claim = base::self().obtain_or_flush(c, group.size() - served, every_class);
      got = group.from_leader(claim.count);
      uint32_t const segment = group.from_leader(claim.segment);
      simt::sync_warp(group.mask);  // all lanes acquire what the leader acquired
      if (rank >= served && rank - served < got) {
        uint32_t const id = base::take_home(segment, simt::global_warp() + rank);
        at.block(id).open_whole(c);
        p = at.slice_at(id, c, 0);
      }
    }
    return p;
  }

  // Joins the 2^lg_k slices of one request. The slices after the first count as freed from the start, so that one free is enough, and are
  // marked as parts of the first.
  GPUHEAP_COLD void join(uint32_t id, unsigned first, unsigned lg_k) {
    unsigned const end = first + (1u << lg_k);
    // Ends: two words at most.
    GPUHEAP_NO_UNROLL
    for (unsigned from = first + 1; from != end;) {
      unsigned const next = from / 64 * 64 + 64 < end ? from / 64 * 64 + 64 : end;
      // relaxed: the reader owns the memory, or frees memory that it does not own.
      joined_word(id, from / 64).fetch_or(simt::low_bits(next - from) << (from % 64), simt::relaxed);
      from = next;
    }
    // This does not free the whole block, since the request's first slice is in use.
    (void)at.block(id).give_up(first + 1, end);
  }
  // Clears the marks of joined slices, before a block of the top class is opened.
  GPUHEAP_FN void separate(uint32_t id) {
    // relaxed: published with the block.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != at.slice_words(); ++i) joined_word(id, i).store(0, simt::relaxed);
  }
  // The number of slices of the request that begins at `first`. 0: the slice belongs to the one before it.
  [[nodiscard]] GPUHEAP_COLD unsigned length_of(uint32_t id, unsigned first) const {
    if (is_joined(id, first)) return 0;
    unsigned end = first + 1;
    // Ends: a request has at most most_slices slices.
    GPUHEAP_NO_UNROLL
    while (end != at.num_slices() && is_joined(id, end)) ++end;
    return end - first;
  }
  [[nodiscard]] GPUHEAP_FN bool is_joined(uint32_t id, unsigned index) const {
    // relaxed: as in join().
    return (joined_word(id, index / 64).load(simt::relaxed) >> (index % 64) & 1) != 0;
  }

  // ---- free

  // Counts a word of a block's freed bits that has become full, and puts the block back if it was the last word.
  GPUHEAP_COLD void word_is_full(uint32_t id, unsigned c, mode m) {
    if (at.block(id).count_word(m)) base::self().put_back(id, c);
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> joined_word(uint32_t id, unsigned i) const {
    return simt::global_ref<uint64_t>{at.joined_of(at.segment_of(id))[i]};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
