// The state of a KMA heap, in the heap's memory, and the search for a superblock with room.
//
// Only a superblock's slab word (slab_word.hpp) says what the superblock is used for and how many blocks of it are in use. Three structures
// help to find superblocks. Each may name a superblock whose word has changed since; the word decides.
//   queue        numbers of superblocks that were free when they were put there, each at most once. A superblock's bit in `queued` says
//                that it is in the queue, or that a thread has just taken it out and has not loaded its word yet
//   heads        for each class, superblocks from which blocks are handed out now
//   room sets    for each class, a bit for each other superblock that is partly in use
//
// Invariant: while no thread is in malloc or free, a free superblock is in the queue, and one that is partly in use is a head of its class
// or in its class's room set. It holds because
//   1. a thread that frees the last block of a superblock puts the superblock into the queue, if its bit was clear. A thread that takes it
//     out clears the bit before it loads the word. Both change the bit by read-modify-writes that acquire and release. So if the freeing
//     thread found the bit set, the taking thread sees the superblock as the freeing thread left it, or in a later state;
//   2. a thread that takes a free superblock into use makes it a head, unless it is full then;
//   3. a thread that frees a block of a full superblock puts the superblock into the room set;
//   4. a thread that replaces a head, or takes a bit out of a room set, loads the superblock's word afterwards, and puts the superblock
//      into the room set of its class if it is partly in use. The word is at least as new as the one that made the superblock a head, or
//      set the bit. If the word says that the superblock is full or free, then threads that change this later do 3, or 1 and 2.
//
// While a thread is at 2 or 4, a superblock may be in none of these places. So 2 and 4 are relocations, which `moves` counts. A search that
// found nothing is final only if no relocation was open before and after it, and none began in between. Otherwise malloc loads every
// superblock's word.
#pragma once

#include <gpuheap/allocators/kma/layout.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/page_runs.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts {

// The counts of take_census (kma/verify.hpp). Device and host.
struct census {
  uint64_t held = 0;
  uint64_t blocks = 0, block_bytes = 0;
  uint64_t runs = 0, run_superblocks = 0;
  uint64_t first_fault = 0;              // {superblock, fault} with the lowest number, inverted so that a maximum finds it; 0: no fault
  uint64_t queued = 0, queued_of = 0;    // set bits of `queued`, and the sum of weight() over their superblocks
  uint64_t entries = 0, entries_of = 0;  // the same for the queue's entries
};

// The state. Device, any thread. The functions are out of line and work on the state in memory, so that the view's fast path stays small.
template <kma_config Config, class Parts>
struct alignas(128) manager {
  using layout_type = layout<Config, Parts>;
  using word32 = simt::global_ref<uint32_t>;
  static constexpr unsigned num_classes = layout_type::num_classes;
  // The passes that relocations may disturb before malloc loads all words. The number matters only for speed.
  static constexpr unsigned quick_passes = 4;

  layout_type at;
  alignas(128) uint64_t moves = 0;
  alignas(128) uint32_t heads[num_classes][Config.heads_per_class];
  alignas(128) structures::page_runs runs;
  census scratch{};  // used by the host's checks

  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() { return {&moves}; }
  GPUHEAP_FN void begin_move() {
    relocations().begin();
    // release: a thread that finds that a superblock has left its place, by a load of any order, sees that a relocation is open.
    simt::fence(simt::release);
  }
  GPUHEAP_FN void end_move() { relocations().end(); }
  [[nodiscard]] GPUHEAP_FN word32 head(unsigned c, unsigned h) { return word32{heads[c][h]}; }

  // ---- malloc

  // Reserves up to `wanted` blocks of class c in one superblock. Tries head h first. The result is none() if no superblock is free, and
  // none of the class has a block left.
  [[nodiscard]] GPUHEAP_COLD grant search(unsigned c, unsigned wanted, unsigned h) {
    simt::back_off pause;
    // Ends: each pass after the first few that does not return saw a superblock that was claimed for an incomplete run. The thread that has
    // claimed it waits for no thread. It gets the run, or fails because another thread has got a superblock.
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
      // The first few passes may be disturbed. After them, the words of all superblocks decide.
      if (pass >= quick_passes) {
        bool uncertain = false;
        got = from_anywhere(c, wanted, h, uncertain);
        if (!got.none() || !uncertain) return got;
      }
      pause.wait();
    }
  }

  // Returns a run of k superblocks, or nullptr.
  [[nodiscard]] GPUHEAP_COLD void* take_run(uint64_t k) {
    auto const first = runs.take(run_pages{this}, k);
    if (first == structures::page_runs::none) return nullptr;
    auto const s = static_cast<uint32_t>(first);
    // relaxed, both: threads learn the length from the program, with the pointer. A search reads the word only to see that the superblock
    // is in use, which it was before, too.
    word32{at.hints[s]}.store(static_cast<uint32_t>(k), simt::relaxed);
    at.state(s).ref().store(slab_word::of(run_head, 1).bits, simt::relaxed);
    return at.superblock_at(s);
  }

  // ---- free. A fence must have released the owner's accesses to the memory before

  // Frees the run that begins at superblock s, if the superblock's word still is that of a run_head. Returns whether it was.
  [[nodiscard]] GPUHEAP_COLD bool give_run(uint32_t s) {
    slab_word seen = slab_word::of(run_head, 1);
    // relay: comes after that fence, and before the one in give().
    if (!at.state(s).ref().compare_exchange(seen.bits, slab_word::of(run_tail, 1).bits, simt::relay, simt::relaxed)) return false;
    uint32_t const k = length_of(s);
    // relaxed: the fence in give() comes before the superblocks are free again.
    word32{at.hints[s]}.store(0, simt::relaxed);
    run_pages{this}.give(s, k);
    runs.freed(s + k);
    return true;
  }
  // Superblocks of the run that begins at s.
  [[nodiscard]] GPUHEAP_FN uint32_t length_of(uint32_t s) const {
    return word32{at.hints[s]}.load(simt::relaxed);  // relaxed: stored before the program got the pointer
  }

  // Called after the free of a block of superblock s. `before`: how many blocks of s, which has class c, were in use until then.
  GPUHEAP_FN void has_room_again(uint32_t s, unsigned c, unsigned before) {
    if (before == 1) {
      if (c != num_classes - 1) unlist(c, s);
      enqueue(s);
    } else if (before == layout_type::capacity(c)) {
      at.tree(c).set(s);
    }
  }

  // ---- steps of these functions

  // Reserves blocks in head h of the class. A head that has become free meanwhile is taken into use again.
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

  // Reserves blocks in a superblock of the class's room set, which then becomes a head.
  [[nodiscard]] GPUHEAP_FN grant from_room_set(unsigned c, unsigned wanted, unsigned h) {
    if (c == num_classes - 1) return {};
    grant got;
    auto const tree = at.tree(c);
    // The search for each head begins at another leaf.
    tree.for_each_leaf(static_cast<unsigned>(uint64_t{tree.num_leaves} * h / at.num_heads), [&](unsigned leaf) {
      // relaxed: a guess; a thread that takes a bit acquires.
      auto bits = tree.leaf(leaf).load(simt::relaxed);
      begin_move();
      if (bits == 0) tree.clear_stale(leaf);
      GPUHEAP_NO_UNROLL
      for (; bits != 0 && got.none(); bits &= bits - 1) {
        uint32_t const s = leaf * 64 + simt::lowest_bit(bits);
        if (!tree.take(s)) continue;
        // acquire: this thread sees what the thread that set the bit had seen; see 4.
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

  // Reserves blocks in a free superblock from the queue, which then becomes a head.
  [[nodiscard]] GPUHEAP_FN grant from_queue(unsigned c, unsigned wanted, unsigned h) {
    auto const queue = at.queue();
    // relaxed, here and below: a guess, which the superblock's word confirms.
    uint32_t const head_before = head(c, h).load(simt::relaxed);
    grant got;
    // Ends: each pass takes an entry out of the queue. Other entries come only by frees, or from threads that go back to a head.
    GPUHEAP_NO_UNROLL
    while (got.none()) {
      if (queue.size() == 0) return {};
      begin_move();
      uint32_t s = 0;
      bool const popped = queue.try_pop(s);
      if (popped) {
        // acq_rel: see 1. From here on, threads may put the superblock into the queue again.
        word32{at.queued[s / 32]}.fetch_and(~(1u << s % 32), simt::acq_rel);
        uint32_t const head_now = head(c, h).load(simt::relaxed);
        if (head_now != head_before && head_now != no_superblock && layout_type::has_room(at.state(head_now).look(), c)) {
          // Another thread has made a new head meanwhile, so this superblock is not needed.
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

  // Reserves blocks in any superblock of the class with a block left, or in any free one. Sets `uncertain` if a superblock was claimed for
  // a run and may become free again.
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
        // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
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

  // Reserves up to `wanted` blocks in superblock s, whose word was `seen`: of class c, and with room. The result is none(), and
  // `seen` is the present word, if the superblock has got another class, has no room, or has changed between free and in use.
  [[nodiscard]] GPUHEAP_FN grant reserve(uint32_t s, slab_word& seen, unsigned c, unsigned wanted) const {
    bool const was_free = seen.is_free();
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (layout_type::is_of_class(seen, c) && seen.fill() < layout_type::capacity(c) && seen.is_free() == was_free) {
      unsigned const room = layout_type::capacity(c) - seen.fill();
      slab_word const before = seen;
      if (at.state(s).reserve(seen, room < wanted ? room : wanted)) return {s, before};
    }
    return {};
  }
  // Takes superblock s into use for class c if it is free, and reserves up to `wanted` blocks. If it is no longer free, the result is
  // none().
  [[nodiscard]] GPUHEAP_FN grant open(uint32_t s, slab_word& seen, unsigned c, unsigned wanted) const {
    unsigned const n = layout_type::capacity(c) < wanted ? layout_type::capacity(c) : wanted;
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
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
  // Puts superblock s into its room set if it is partly in use. The caller has taken it from the place where threads could find it, and has
  // acquired since.
  GPUHEAP_FN void list_if_room(uint32_t s) const {
    slab_word const seen = at.state(s).look();
    unsigned const kind = seen.kind();
    if (kind != 0 && kind < num_classes && layout_type::has_room(seen, kind - 1)) at.tree(kind - 1).set(s);
  }
  // Takes superblock s, which has become free, out of the room set of class c.
  GPUHEAP_FN void unlist(unsigned c, uint32_t s) {
    auto const tree = at.tree(c);
    auto const bit = uint64_t{1} << s % 64;
    // relaxed: a bit that stays costs another thread a look at the superblock's word.
    if ((tree.leaf(s / 64).load(simt::relaxed) & bit) == 0) return;
    begin_move();
    if (tree.take_mask(s / 64, bit) != 0) {
      simt::fence(simt::acquire);  // see 4
      list_if_room(s);
    }
    end_move();
  }
  // Puts superblock s, which has become free, into the queue.
  GPUHEAP_FN void enqueue(uint32_t s) const {
    // acq_rel: see 1.
    if ((word32{at.queued[s / 32]}.fetch_or(1u << s % 32, simt::acq_rel) >> s % 32 & 1) != 0) return;
    // The queue has a place: the superblocks that are in it, or have just been taken out, are fewer than its places.
    (void)at.queue().try_push(s);
  }

  // The superblocks, as the interface of page_runs requires.
  struct run_pages {
    manager* of;
    [[nodiscard]] GPUHEAP_FN uint32_t count() const { return of->at.num_superblocks; }
    [[nodiscard]] GPUHEAP_FN bool is_free(uint32_t s) const { return of->at.state(s).look().is_free(); }
    GPUHEAP_FN void begin_claims() const { of->begin_move(); }
    GPUHEAP_FN void end_claims() const { of->end_move(); }
    [[nodiscard]] GPUHEAP_FN bool claim(uint32_t s) const {
      slab_word seen = of->at.state(s).look();
      // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
      GPUHEAP_NO_UNROLL
      while (seen.is_free()) {
        if (of->at.state(s).open(seen, run_claim, 1, false)) return true;
      }
      return false;
    }
    GPUHEAP_FN void keep(uint32_t first, uint32_t n) const {
      // relaxed: this thread owns the superblocks, whatever their kind.
      GPUHEAP_NO_UNROLL
      for (uint32_t s = first; s != first + n; ++s) of->at.state(s).ref().store(slab_word::of(run_tail, 1).bits, simt::relaxed);
    }
    GPUHEAP_FN void give(uint32_t first, uint32_t n) const {
      // release: publishes the accesses to the superblocks that this thread made or acquired. Pairs with the acquire half of
      // slab_state::open().
      simt::fence(simt::release);
      // relaxed: the fence orders the stores.
      GPUHEAP_NO_UNROLL
      for (uint32_t s = first; s != first + n; ++s) {
        of->at.state(s).ref().store(0, simt::relaxed);
        of->enqueue(s);
      }
    }
  };
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::kma_parts
