// The state of a KMA heap that lies in the heap's memory, and how it finds a superblock with room.
//
// Only a superblock's slab word (slab_word.hpp) says what the superblock is used for and how many blocks of it are in use. Three structures
// help to find superblocks. Each may name a superblock whose state has changed since; the word decides.
//   queue        indices of superblocks that were free when they were put there, each at most once: its bit in `queued` says that it is
//                there, or that a thread has just taken it out and has not yet looked at its word
//   heads        of each class: superblocks that blocks are handed out of now
//   room sets    of each class: other superblocks that are partly in use, a bit for each
//
// Invariant: with nothing under way, a superblock that is free is in the queue, and one that is partly in use is a head of its class or in
// its room set. It holds because
//   1. a thread that gives back the last block of a superblock puts it into the queue, if its bit was clear. A taker clears the bit before
//      it looks at the word. Both change the bit by read-modify-writes that acquire and release: if the giver found the bit set, the taker
//      sees the superblock as the giver left it, or later;
//   2. a thread that makes a free superblock one that is in use makes it a head, unless it is full then;
//   3. a thread that gives back a block of a full superblock puts it into the room set;
//   4. a thread that replaces a head, or takes a bit out of a room set, looks at the superblock's word afterwards, and puts it into the
//      room set of its class if it is partly in use. It sees a state at least as new as the
//      one that made the superblock a head, or set the bit. If
//      it sees a full superblock, or a free one, then threads that have changed that since have done 3, or 1 and 2.
//
// While a thread is at 2 or 4, a superblock can be nowhere: `moves` counts these. A search that found nothing counts only if nothing was
// under way before and after it. Otherwise every word is looked at.
#pragma once

#include <gpuheap/allocators/kma/layout.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/page_runs.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts {

// The result of a walk over the superblocks. Device and host.
struct census {
  uint64_t held = 0;
  uint64_t blocks = 0, block_bytes = 0;
  uint64_t runs = 0, run_superblocks = 0;
  uint64_t first_fault = 0;            // {superblock, fault}, the lowest of all; 0: none. Kept inverted, so that a maximum finds it
  uint64_t queued = 0, queued_of = 0;  // bits set, and a sum over the superblocks that they are of
  uint64_t entries = 0, entries_of = 0;
};

// Device, any thread; out of line, and in memory, so that the view's fast path stays small.
template <kma_config Config, class Parts>
struct alignas(128) manager {
  using layout_type = layout<Config, Parts>;
  using word32 = simt::global_ref<uint32_t>;
  static constexpr unsigned num_classes = layout_type::num_classes;
  // Searches that may be disturbed before all words are looked at: for speed alone.
  static constexpr unsigned quick_passes = 4;

  layout_type at;
  alignas(128) uint64_t moves = 0;
  alignas(128) uint32_t heads[num_classes][Config.heads_per_class];
  alignas(128) structures::page_runs runs;
  census scratch{};  // of the host's walks

  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() { return {&moves}; }
  GPUHEAP_FN void begin_move() {
    relocations().begin();
    // release: a thread that finds that something has left its place, by whatever order, sees that it is being moved.
    simt::fence(simt::release);
  }
  GPUHEAP_FN void end_move() { relocations().end(); }
  [[nodiscard]] GPUHEAP_FN word32 head(unsigned c, unsigned h) { return word32{heads[c][h]}; }

  // ---- malloc

  // Reserves up to `wanted` blocks of class c in one superblock, for which head h is to be asked first. None: no superblock is free, and
  // none of the class has a block left.
  [[nodiscard]] GPUHEAP_COLD grant search(unsigned c, unsigned wanted, unsigned h) {
    simt::back_off pause;
    // Ends: a pass that goes on after the first ones saw a superblock claimed for a run that was not complete. A thread that claims it
    // waits for no thread, and either gets the run or is foiled by another thread that gets something.
    GPUHEAP_NO_UNROLL
    for (unsigned pass = 1;; ++pass) {
      auto const before = relocations().read_begin();
      grant got = from_head(c, wanted, h);
      if (got.none()) got = from_room_set(c, wanted, h);
      if (got.none()) got = from_queue(c, wanted, h);
      GPUHEAP_NO_UNROLL
      for (unsigned other = 0; got.none() && other != at.num_heads; ++other) got = from_head(c, wanted, other);
      if (!got.none()) return got;
      auto const after = relocations().read_end();
      if (after == before && structures::relocation_count::quiet(after)) return {};
      // The first passes may be too early; then all words decide.
      if (pass >= quick_passes) {
        bool uncertain = false;
        got = from_anywhere(c, wanted, h, uncertain);
        if (!got.none() || !uncertain) return got;
      }
      pause.wait();
    }
  }

  // A run of k superblocks, or nullptr.
  [[nodiscard]] GPUHEAP_COLD void* take_run(uint64_t k) {
    auto const first = runs.take(run_pages{this}, k);
    if (first == structures::page_runs::none) return nullptr;
    auto const s = static_cast<uint32_t>(first);
    // relaxed, both: no other thread looks at them before the caller hands the pointer on.
    word32{at.hints[s]}.store(static_cast<uint32_t>(k), simt::relaxed);
    at.state(s).ref().store(slab_word::of(run_head, 1).bits, simt::relaxed);
    return at.superblock_at(s);
  }

  // ---- free. A fence must have released the owner's accesses to the memory before

  // Gives back the run that begins at superblock s, if its word still is run_head.
  [[nodiscard]] GPUHEAP_COLD bool give_run(uint32_t s) {
    slab_word seen = slab_word::of(run_head, 1);
    // relay: between that fence and the one in give().
    if (!at.state(s).ref().compare_exchange(seen.bits, slab_word::of(run_tail, 1).bits, simt::relay, simt::relaxed)) return false;
    uint32_t const k = length_of(s);
    word32{at.hints[s]}.store(0, simt::relaxed);
    run_pages{this}.give(s, k);
    runs.freed(s + k);
    return true;
  }
  // Superblocks of the run that begins at s.
  [[nodiscard]] GPUHEAP_FN uint32_t length_of(uint32_t s) const {
    return word32{at.hints[s]}.load(simt::relaxed);  // relaxed: written before the pointer was handed on
  }

  // A block of superblock s was given back, which had `before` of class c in use.
  GPUHEAP_FN void has_room_again(uint32_t s, unsigned c, unsigned before) {
    if (before == 1) {
      if (c != num_classes - 1) unlist(c, s);
      enqueue(s);
    } else if (before == layout_type::capacity(c)) {
      at.tree(c).set(s);
    }
  }

  // ---- the parts of these

  // A head of the class. One that has become free meanwhile is taken into use again.
  [[nodiscard]] GPUHEAP_FN grant from_head(unsigned c, unsigned wanted, unsigned h) {
    uint32_t const s = head(c, h).load(simt::relaxed);  // relaxed: a guess, which the word confirms
    if (s == no_superblock) return {};
    slab_word seen = at.state(s).look();
    if (!layout_type::is_of_class(seen, c) || seen.fill() >= layout_type::capacity(c)) return {};
    if (!seen.is_free()) return reserve(s, seen, c, wanted);
    begin_move();
    grant const got = reserve(s, seen, c, wanted);
    if (!got.none()) make_head(got, c, wanted, h);
    end_move();
    return got;
  }

  // A superblock of the class's room set, which becomes a head instead.
  [[nodiscard]] GPUHEAP_FN grant from_room_set(unsigned c, unsigned wanted, unsigned h) {
    if (c == num_classes - 1) return {};
    grant got;
    auto const tree = at.tree(c);
    // Each head begins elsewhere.
    tree.for_each_leaf(static_cast<unsigned>(uint64_t{tree.num_leaves} * h / at.num_heads), [&](unsigned leaf) {
      // relaxed: a guess; a thread that takes a bit acquires.
      auto bits = tree.leaf(leaf).load(simt::relaxed);
      begin_move();
      if (bits == 0) tree.clear_stale(leaf);
      GPUHEAP_NO_UNROLL
      for (; bits != 0 && got.none(); bits &= bits - 1) {
        uint32_t const s = leaf * 64 + simt::lowest_bit(bits);
        if (!tree.take(s)) continue;
        // acquire: what the thread that set the bit had seen; see 4.
        simt::fence(simt::acquire);
        slab_word seen = at.state(s).look();
        if (layout_type::has_room(seen, c)) got = reserve(s, seen, c, wanted);
        if (got.none()) {
          list_if_room(s);
        } else {
          make_head(got, c, wanted, h);
        }
      }
      end_move();
      return !got.none();
    });
    return got;
  }

  // A free superblock, which becomes a head.
  [[nodiscard]] GPUHEAP_FN grant from_queue(unsigned c, unsigned wanted, unsigned h) {
    auto const queue = at.queue();
    uint32_t const head_before = head(c, h).load(simt::relaxed);
    grant got;
    // Ends: each pass takes an entry out, and others come only by frees, or by a thread that went back to its head.
    GPUHEAP_NO_UNROLL
    while (got.none()) {
      if (queue.size() == 0) return {};
      begin_move();
      uint32_t s = 0;
      bool const popped = queue.try_pop(s);
      if (popped) {
        // acq_rel: see 1. Then the superblock can be put there again.
        word32{at.queued[s / 32]}.fetch_and(~(1u << s % 32), simt::acq_rel);
        uint32_t const head_now = head(c, h).load(simt::relaxed);
        if (head_now != head_before && head_now != no_superblock && layout_type::has_room(at.state(head_now).look(), c)) {
          // Another thread has brought one meanwhile: two are not needed.
          enqueue(s);
          end_move();
          return from_head(c, wanted, h);
        }
        slab_word seen = at.state(s).look();
        got = open(s, seen, c, wanted);
        if (!got.none()) make_head(got, c, wanted, h);
      }
      end_move();
      if (!popped) return {};
    }
    return got;
  }

  // Any superblock with a block left, and any that is free. `uncertain`: one was claimed for a run and may become free again.
  [[nodiscard]] GPUHEAP_FN grant from_anywhere(unsigned c, unsigned wanted, unsigned h, bool& uncertain) {
    GPUHEAP_NO_UNROLL
    for (uint32_t s = 0; s < at.num_superblocks; s += 4) {
      unsigned promising = 0;
      // The four loads are in flight together.
      for (unsigned j = 0; j < 4; ++j) {
        slab_word const word = s + j < at.num_superblocks ? at.state(s + j).look() : slab_word::of(run_tail, 1);
        uncertain |= word.kind() == run_claim && !word.is_free();
        if (word.is_free() || layout_type::has_room(word, c)) promising |= 1u << j;
      }
      GPUHEAP_NO_UNROLL
      for (; promising != 0; promising &= promising - 1) {
        uint32_t const candidate = s + simt::lowest_bit(promising);
        begin_move();
        grant got;
        // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
        GPUHEAP_NO_UNROLL
        for (slab_word seen = at.state(candidate).look(); got.none() && (seen.is_free() || layout_type::has_room(seen, c));) {
          got = seen.is_free() ? open(candidate, seen, c, wanted) : reserve(candidate, seen, c, wanted);
        }
        if (!got.none() && got.before.is_free()) make_head(got, c, wanted, h);
        end_move();
        if (!got.none()) return got;
      }
    }
    return {};
  }

  // Takes superblock s, which is of class c and was `seen` with room, for up to `wanted` blocks more. If that is no longer so, `seen`
  // receives what is there.
  [[nodiscard]] GPUHEAP_FN grant reserve(uint32_t s, slab_word& seen, unsigned c, unsigned wanted) const {
    bool const was_free = seen.is_free();
    // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (layout_type::is_of_class(seen, c) && seen.fill() < layout_type::capacity(c) && seen.is_free() == was_free) {
      unsigned const room = layout_type::capacity(c) - seen.fill();
      slab_word const before = seen;
      if (at.state(s).reserve(seen, room < wanted ? room : wanted)) return {s, before};
    }
    return {};
  }
  // The same for superblock s if it is free: takes it, which was `seen`, into use for class c.
  [[nodiscard]] GPUHEAP_FN grant open(uint32_t s, slab_word& seen, unsigned c, unsigned wanted) const {
    unsigned const n = layout_type::capacity(c) < wanted ? layout_type::capacity(c) : wanted;
    // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (seen.is_free()) {
      if (at.state(s).open(seen, c + 1, n, false)) return {s, slab_word::of(c + 1, 0)};
    }
    return {};
  }

  // Makes the superblock of a grant a head of its class, if it has blocks left.
  GPUHEAP_FN void make_head(grant got, unsigned c, unsigned wanted, unsigned h) {
    if (got.before.fill() + wanted >= layout_type::capacity(c)) return;
    // acq_rel: see 4.
    uint32_t const old = head(c, h).exchange(got.superblock, simt::acq_rel);
    if (old != no_superblock && old != got.superblock) list_if_room(old);
  }
  // A thread has taken superblock s from where it could be found, after an acquire.
  GPUHEAP_FN void list_if_room(uint32_t s) const {
    slab_word const seen = at.state(s).look();
    unsigned const kind = seen.kind();
    if (kind != 0 && kind < num_classes && layout_type::has_room(seen, kind - 1)) at.tree(kind - 1).set(s);
  }
  // Superblock s has become free: it is of no use in the room set.
  GPUHEAP_FN void unlist(unsigned c, uint32_t s) {
    auto const tree = at.tree(c);
    auto const bit = uint64_t{1} << s % 64;
    // relaxed: a bit that is overlooked costs another thread a look.
    if ((tree.leaf(s / 64).load(simt::relaxed) & bit) == 0) return;
    begin_move();
    if (tree.take_mask(s / 64, bit) != 0) {
      simt::fence(simt::acquire);  // see 4
      list_if_room(s);
    }
    end_move();
  }
  // Superblock s has become free.
  GPUHEAP_FN void enqueue(uint32_t s) const {
    // acq_rel: see 1.
    if ((word32{at.queued[s / 32]}.fetch_or(1u << s % 32, simt::acq_rel) >> s % 32 & 1) != 0) return;
    // There is a place: fewer superblocks than the queue has places are in it or have just been taken out.
    (void)at.queue().try_push(s);
  }

  // Superblocks as page_runs wants them.
  struct run_pages {
    manager* of;
    [[nodiscard]] GPUHEAP_FN uint32_t count() const { return of->at.num_superblocks; }
    [[nodiscard]] GPUHEAP_FN bool is_free(uint32_t s) const { return of->at.state(s).look().is_free(); }
    GPUHEAP_FN void begin_claims() const { of->begin_move(); }
    GPUHEAP_FN void end_claims() const { of->end_move(); }
    [[nodiscard]] GPUHEAP_FN bool claim(uint32_t s) const {
      slab_word seen = of->at.state(s).look();
      // Ends: a pass that goes on lost the word to another thread's change. Lock-free.
      GPUHEAP_NO_UNROLL
      while (seen.is_free()) {
        if (of->at.state(s).open(seen, run_claim, 1, false)) return true;
      }
      return false;
    }
    GPUHEAP_FN void keep(uint32_t first, uint32_t n) const {
      // relaxed: they are this thread's, whatever they are called.
      GPUHEAP_NO_UNROLL
      for (uint32_t s = first; s != first + n; ++s) of->at.state(s).ref().store(slab_word::of(run_tail, 1).bits, simt::relaxed);
    }
    GPUHEAP_FN void give(uint32_t first, uint32_t n) const {
      // release: what this thread has done and seen done to the superblocks. Pairs with the acquire half of slab_state::open().
      simt::fence(simt::release);
      // relaxed: after the fence.
      GPUHEAP_NO_UNROLL
      for (uint32_t s = first; s != first + n; ++s) {
        of->at.state(s).ref().store(0, simt::relaxed);
        of->enqueue(s);
      }
    }
  };
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts
