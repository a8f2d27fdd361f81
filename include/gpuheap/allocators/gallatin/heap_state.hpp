// The state of a Gallatin heap, in the heap's memory, and the slow paths of malloc and free: fetching blocks into slots, requests of more
// than a slice, and giving blocks back.
#pragma once

#include <gpuheap/allocators/gallatin/segments.hpp>
#include <gpuheap/allocators/gallatin/slots.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// The slices that a group of lanes got: slices of a block, from `first` on, as many as were requested or as there are. Or none: at all, or
// for the moment.
struct grant {
  uint32_t block = no_block;
  uint32_t first = 0;
  [[nodiscard]] GPUHEAP_HD static constexpr grant not_yet() { return {no_block, 1}; }
  [[nodiscard]] GPUHEAP_HD constexpr bool none() const { return block == no_block; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_final() const { return block != no_block || first == 0; }
  // As one value, for a shuffle.
  [[nodiscard]] GPUHEAP_HD constexpr uint64_t packed() const { return uint64_t{block} << 32 | first; }
  [[nodiscard]] GPUHEAP_HD static constexpr grant unpacked(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
  }
};

// Device, any thread.
template <gallatin_config Config, class Parts>
struct heap_state : segment_pool<Config, Parts, typename Parts::template state<Config, Parts>> {
  using base = segment_pool<Config, Parts, typename Parts::template state<Config, Parts>>;
  using slot_type = typename Parts::slot;
  using base::at;
  using base::num_classes;

  static constexpr unsigned every_class = num_classes;

  // ---- slices. A group of lanes asks like this, and waits for a thread that fetches a block for its slot; that thread may wait for the
  // growth lock, whose holder waits for no thread:
  //
  //   until it has an answer:   take from the slot's block.   None: is a thread fetching another? wait.   Otherwise fetch one: refill().
  //                             None, or has another attempt failed that began after the request? take from other slots, or give up

  // Takes slices of class c for up to n requests of 2^lg_k (k > 1 in the top class only) each from other slots than i. Each slot is looked
  // at once, or, if an attempt was under way in it, when that attempt has ended, since it may have got the last block.
  [[nodiscard]] GPUHEAP_COLD grant take_from_others(unsigned c, unsigned lg_k, unsigned n, unsigned i) {
    unsigned const num_slots = at.num_slots(c);
    // Ends: num_slots - 1 passes.
    GPUHEAP_NO_UNROLL
    for (unsigned j = i + 1 == num_slots ? 0 : i + 1; j != i; j = j + 1 == num_slots ? 0 : j + 1) {
      slot_word seen = at.slot(c, j).look();
      uint32_t const attempt = seen.generation();
      simt::back_off pause;
      // Ends: the thread that made the slot busy ends its attempt; see above. Blocking.
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

  // Takes slices of the block in a slot, if it has some. It is read first, so that no thread adds to the count of an exhausted block.
  [[nodiscard]] GPUHEAP_COLD grant take_from_slot(slot_word seen, unsigned c, unsigned lg_k, unsigned n) {
    if (!seen.has_block()) return {};
    block_word const now = at.block(seen.block()).look();
    if (!now.has_slices_of(c) || now.count() + (1u << lg_k) > at.num_slices()) return {};
    unsigned const wanted = n << lg_k;
    return base::self().settle(seen.block(), c, lg_k, wanted, at.block(seen.block()).take(wanted));
  }
  // Decides about `wanted` slices that were taken from a block whose word was `before`. Slices for whole requests of 2^lg_k are the
  // caller's. The others are given up: the block's last ones, if they are too few for a request, and those of a block that has become one
  // of another class since its slot was read.
  [[nodiscard]] GPUHEAP_FN grant settle(uint32_t id, unsigned c, unsigned lg_k, unsigned wanted, block_word before) {
    unsigned const first = before.count(), all = at.num_slices();
    if (before.state() != mode::open || first >= all) return {};
    unsigned const end = wanted < all - first ? first + wanted : all;
    unsigned const used = before.has_slices_of(c) ? (end - first) >> lg_k << lg_k : 0;
    if (first + used != end && at.block(id).give_up(first + used, end)) base::self().put_back(id, before.size_class());
    return used == 0 ? grant{} : grant{id, first};
  }
  // The same, not inlined, for the fast path: slices of a block that has another class, or too few.
  [[nodiscard]] GPUHEAP_COLD grant settle_single(uint32_t id, unsigned c, unsigned wanted, block_word before) {
    return settle(id, c, 0, wanted, before);
  }

  // Puts a new block into slot i in place of the one in `seen`, with slices for up to n requests taken: a block without taken slices would
  // be idle, and other threads might take it out again, for ever. The answer may be `not yet` (another thread replaces it) or `none` (there
  // is no block).
  [[nodiscard]] GPUHEAP_COLD grant refill(unsigned c, unsigned lg_k, unsigned n, unsigned i, slot_word seen) {
    slot_type const where = at.slot(c, i);
    // A block with too few slices for the caller stays for other threads until there is another one, unless it is idle.
    bool const kept = seen.has_block() && has_slices(seen.block(), c), idle = kept && at.block(seen.block()).is_idle();
    if (!where.begin(seen, kept && !idle)) return grant::not_yet();
    if (idle) (void)retire(seen.block());
    // Others of the class that have enough slices would be found later; those that have too few are not, and may be idle.
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

  // Gives up what is left of a block. True if its segment became free.
  GPUHEAP_FN bool retire(uint32_t id) {
    unsigned c = 0;
    return at.block(id).retire(c) && base::self().put_back(id, c);
  }

  // Up to `wanted` blocks of class c, of one segment, for which idle blocks of classes other than `but` leave their slots if need be.
  [[nodiscard]] GPUHEAP_FN block_claim obtain_or_flush(unsigned c, unsigned wanted, unsigned but) {
    structures::relocation_count const moves = base::relocations();
    simt::back_off pause;
    // Ends: a pass that goes on moved an idle block out of its slot, or saw another thread move something, and waits for that one, which
    // waits for no thread. Blocking.
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

  // Takes idle blocks out of their slots and puts them back, but for those of class `but`: until a segment became free, or `all` of them.
  // False: there were none.
  [[nodiscard]] GPUHEAP_COLD bool flush(unsigned but, bool all) {
    bool any = false, enough = false;
    // Ends: num_classes passes. The largest blocks first: they free segments soonest.
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

  // ---- requests of more than the slices of the top class

  // The lanes of `here` call this together, and those that want blocks of the same class take them together.
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

  // A whole block to each lane of the group, or to those of the lowest ranks if there are not enough.
  [[nodiscard]] GPUHEAP_FN void* take_blocks(structures::warp_group group, unsigned c) {
    unsigned const rank = group.rank();
    void* p = nullptr;
    unsigned got = 1;
    // Ends: a pass that goes on served a lane.
    GPUHEAP_NO_UNROLL
    for (unsigned served = 0; served != group.size() && got != 0; served += got) {
      block_claim claim;
      if (group.leads()) claim = base::self().obtain_or_flush(c, group.size() - served, every_class);
      got = group.from_leader(claim.count);
      uint32_t const segment = group.from_leader(claim.segment);
      simt::sync_warp(group.mask);  // what the leader acquired
      if (rank >= served && rank - served < got) {
        uint32_t const id = base::take_home(segment, simt::global_warp() + rank);
        at.block(id).open_whole(c);
        p = at.slice_at(id, c, 0);
      }
    }
    return p;
  }

  // Joins the slices of a request of 2^lg_k: those behind the first count as back from the start, so that one free is enough, and are
  // marked as parts of the first.
  GPUHEAP_COLD void join(uint32_t id, unsigned first, unsigned lg_k) {
    unsigned const end = first + (1u << lg_k);
    // Ends: two words at most.
    GPUHEAP_NO_UNROLL
    for (unsigned from = first + 1; from != end;) {
      unsigned const next = from / 64 * 64 + 64 < end ? from / 64 * 64 + 64 : end;
      // relaxed: read by the thread that owns the memory, or by one that frees what it does not own.
      joined_word(id, from / 64).fetch_or(simt::low_bits(next - from) << (from % 64), simt::relaxed);
      from = next;
    }
    // This cannot bring the block home: the request's first slice is in use.
    (void)at.block(id).give_up(first + 1, end);
  }
  // Called before a block of the top class is opened: no slice is joined.
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
    return (joined_word(id, index / 64).load(simt::relaxed) >> (index % 64) & 1) != 0;
  }

  // ---- free

  // Called when a word of a block's freed slices has become full. Counts it, and puts the block back if it was the last.
  GPUHEAP_COLD void word_is_full(uint32_t id, unsigned c, mode m) {
    if (at.block(id).count_word(m)) base::self().put_back(id, c);
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> joined_word(uint32_t id, unsigned i) const {
    return simt::global_ref<uint64_t>{at.joined_of(at.segment_of(id))[i]};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
