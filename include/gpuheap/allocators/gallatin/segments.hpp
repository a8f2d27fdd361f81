// Segments. One word has a segment's use and the number of its blocks that no thread has. Trees find the segments with blocks to take, and
// the free segments.
//
//   word   bit 0     32      40
//          | count  | kind  | 0 |
//
//   kind    free: in the tree of free segments, or just taken from it or being put into it.   head, tail: of a run of segments.
//           otherwise the class of its blocks
//   count   of a class: blocks that are home and that no thread has claimed.   head: segments of the run
//
// Count and kind change together: a thread that claims a block has seen the segment's kind, and the count never falls below zero. So the
// word itself says when all blocks are home, and one of the threads that see this makes the segment free. A compare-exchange of the word is
// right even if the word has changed in between and changed back.
#pragma once

#include <gpuheap/allocators/gallatin/blocks.hpp>
#include <gpuheap/allocators/gallatin/layout.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/relocation_count.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts {

// The word, as a value. A word of zeros is a free segment.
struct segment_word {
  uint64_t bits = 0;

  static constexpr unsigned free = 0, head = 1, tail = 2, first_class = 3;
  [[nodiscard]] GPUHEAP_HD static constexpr segment_word of(unsigned kind, uint32_t count) { return {uint64_t{kind} << 32 | count}; }
  [[nodiscard]] GPUHEAP_HD static constexpr segment_word of_class(unsigned c, uint32_t count) { return of(first_class + c, count); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t count() const { return static_cast<uint32_t>(bits); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned kind() const { return static_cast<unsigned>(bits >> 32); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_free() const { return kind() == free; }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_of_class(unsigned c) const { return kind() == first_class + c; }
};

// A view of the word. Any thread.
struct segment_state {
  uint64_t* word = nullptr;

  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> ref() const { return simt::global_ref<uint64_t>{*word}; }
  // relaxed: the result is a guess, unless the caller owns memory of the segment: then the kind cannot change.
  [[nodiscard]] GPUHEAP_FN segment_word look() const { return {ref().load(simt::relaxed)}; }

  // Claims up to `wanted` of the blocks of class c that are home, and sets `left` to the number that remain. Returns how many it claimed.
  //
  // Of many threads that loaded the same word, only one exchange succeeds, and the next one only after another trip to memory. So after a
  // failed exchange, a thread guesses, every other time, how many blocks other threads will have claimed before its next exchange arrives,
  // and subtracts them from the expected count. Of threads with different guesses, several succeed.
  [[nodiscard]] GPUHEAP_FN unsigned take(unsigned c, unsigned wanted, unsigned& left) const {
    segment_word seen = look();
    // Ends: of two passes in a row that do not return, one made no guess, and lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    for (unsigned attempt = 0; seen.is_of_class(c) && seen.count() != 0; ++attempt) {
      unsigned const ahead = attempt % 2 == 0 ? 0 : wanted * ((simt::global_warp() + attempt) * 0x9e3779b1u >> 29);
      if (ahead < seen.count()) seen.bits -= ahead;
      unsigned const n = wanted < seen.count() ? wanted : seen.count();
      left = seen.count() - n;
      // relay: comes after the threads that brought blocks home, and before this thread's accesses to the blocks that it has claimed.
      if (ref().compare_exchange(seen.bits, seen.bits - n, simt::relay, simt::relaxed)) return n;
    }
    return 0;
  }
  // Adds a block that is home, and returns the word as it was.
  [[nodiscard]] GPUHEAP_FN segment_word give() const {
    // consume_release: the block's home bit is set before this addition. So no home bit is set after the segment has got another use.
    return {ref().fetch_add(1, simt::consume_release)};
  }
  // Makes the segment free if all n blocks of class c are home. Only one of several threads gets true.
  [[nodiscard]] GPUHEAP_FN bool release(unsigned c, unsigned n) const {
    uint64_t all = segment_word::of_class(c, n).bits;
    // relay: comes after the threads that brought the blocks home, and before the thread that takes the segment from the tree.
    return ref().compare_exchange(all, 0, simt::relay, simt::relaxed);
  }
};

// Blocks that a thread has claimed in a segment's word. The thread then finds each of them by take_home().
struct block_claim {
  uint32_t segment = 0;
  unsigned count = 0;  // 0: none
};

// All segments, and the blocks that no thread has. Device, any thread. The functions are not inlined, and work on a state in memory, so
// that the view's fast path stays small. `Derived` is the whole state; the functions that tests replace are called through it.
template <gallatin_config Config, class Parts, class Derived>
struct alignas(128) segment_pool {
  using layout_type = layout<Config, Parts>;
  using tree_type = typename Parts::tree;
  static constexpr unsigned num_classes = layout_type::num_classes;

  layout_type at;
  // Counts relocations: of idle blocks to their segments, and of segments to the tree of free ones. A claim of a run counts too, since the
  // run may be put back.
  alignas(128) uint64_t relocation_word = 0;
  alignas(128) uint32_t run_lock = 0;                    // held while a run is claimed
  alignas(128) uint32_t growth_locks[num_classes] = {};  // held while a free segment becomes one of the class

  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() { return {&relocation_word}; }

  // ---- blocks

  // Claims up to `wanted` blocks of class c in one segment. The result has count 0 if no segment has any and none is free.
  [[nodiscard]] GPUHEAP_FN block_claim obtain(unsigned c, unsigned wanted) {
    block_claim got = self().take_from_tree(c, wanted, false);
    if (got.count != 0) return got;
    // If a segment holds only one block, threads cannot share it, so the lock would not help.
    if (at.blocks_of(c) == 1) return self().grow(c, wanted);
    structures::spin_lock const lock{&growth_locks[c]};
    simt::back_off pause;
    // One thread takes a free segment for all: without the lock, each thread would take one. The others look for blocks of that segment
    // meanwhile, without the lock.
    // Ends: a thread that holds the lock waits for no thread. Blocking.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      done = lock.try_run([&] {
        got = self().take_from_tree(c, wanted, true);
        if (got.count == 0) got = self().grow(c, wanted);
      });
      if (!done) {
        pause.wait();
        got = self().take_from_tree(c, wanted, false);
        done = got.count != 0;
      }
    }
    return got;
  }

  // Puts a block back into its segment, when all of its slices are freed or no thread had any. Returns whether the segment became free.
  GPUHEAP_COLD bool put_back(uint32_t id, unsigned c) {
    uint32_t const s = at.segment_of(id);
    unsigned const place = at.place_of(id), n = at.blocks_of(c);
    at.block(id).close();
    // consume_release: close() comes before the stores of a thread that opens the block next.
    home_word(s, place / 64).fetch_or(uint64_t{1} << (place % 64), simt::consume_release);
    segment_word const before = at.segment(s).give();
    // A segment without blocks at home is in no tree, or a thread is about to remove it from the tree, and will check it again afterwards.
    if (before.count() == 0 && n != 1) at.segments_with_blocks(c).set(s);
    return before.count() + 1 == n && self().free_segment(s, c);
  }

  // ---- runs

  // Takes a run of k segments (k > 0), and returns its address, or nullptr.
  [[nodiscard]] GPUHEAP_FN void* take_run(uint32_t k) {
    uint32_t first = tree_type::none;
    auto const tree = at.free_segments();
    // Only one thread claims at a time, since overlapping claims would defeat each other. A search comes first, so that no relocation is
    // counted if there is no run.
    structures::spin_lock{&run_lock}.run([&] {
      if (tree.find_run(k, at.tree_leaves() * 64) == tree_type::none) return;
      relocations().begin();
      first = tree.claim_run(k);
      relocations().end();
    });
    if (first == tree_type::none) return nullptr;
    // relaxed, all: threads learn of the run from the program, with the pointer. A thread that reads such a word earlier sees only that the
    // segment has no class.
    at.segment(first).ref().store(segment_word::of(segment_word::head, k).bits, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (uint32_t s = first + 1; s != first + k; ++s)
      at.segment(s).ref().store(segment_word::of(segment_word::tail, 0).bits, simt::relaxed);
    return at.segment_at(first);
  }
  // Frees the run whose first segment's word was `seen`. Returns false if another thread has freed it.
  [[nodiscard]] GPUHEAP_FN bool give_run(uint32_t first, segment_word seen) {
    uint32_t const k = seen.count();
    // relay: passes on the fence at the beginning of free_run().
    if (!at.segment(first).ref().compare_exchange(seen.bits, 0, simt::relay, simt::relaxed)) return false;
    // The words are stored before the tree's bits are set, so a thread that takes a segment from the tree finds its word free. relaxed:
    // set_run() releases.
    GPUHEAP_NO_UNROLL
    for (uint32_t s = first + 1; s != first + k; ++s) at.segment(s).ref().store(0, simt::relaxed);
    at.free_segments().set_run(first, k);
    return true;
  }

  // ---- steps

  // Claims blocks of the first segment of class c that has some. If `exact`, the search misses no segment that has blocks all the time.
  [[nodiscard]] GPUHEAP_FN block_claim take_from_tree(unsigned c, unsigned wanted, bool exact) {
    auto const tree = at.segments_with_blocks(c);
    // Ends: a pass that does not return removed a bit, which is set again only when another thread brings a block home.
    GPUHEAP_NO_UNROLL
    for (unsigned s = tree.successor(0, exact); s != tree_type::none; s = tree.successor(s, exact)) {
      unsigned left = 1;
      unsigned const got = at.segment(s).take(c, wanted, left);
      if (got == 0 || left == 0) self().unlist(c, s);
      if (got != 0) return {s, got};
    }
    return {};
  }
  // Removes segment s, which was seen without blocks, from the tree of class c, unless it has a block by now: the thread that brought that
  // block home may have set the bit before this removal. A thread may also set the bit when the block is claimed already. The next thread
  // that finds that bit removes it.
  GPUHEAP_FN void unlist(unsigned c, uint32_t s) {
    at.segments_with_blocks(c).recompute(s, [&] {
      // acquire: recompute() requires it.
      segment_word const now{at.segment(s).ref().load(simt::acquire)};
      return now.is_of_class(c) && now.count() != 0;
    });
  }
  // Finds and takes a block of segment s that is home. The caller has claimed it in the segment's word. `nth` differs between threads that
  // come at the same time, so that they try for different blocks.
  [[nodiscard]] GPUHEAP_FN uint32_t take_home(uint32_t s, unsigned nth) {
    // Ends: at least as many blocks have their home bit as threads have a claim without a block. So a pass over all words that finds none
    // met another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    for (unsigned i = nth % at.home_words();; i = i + 1 == at.home_words() ? 0 : i + 1) {
      uint64_t bits = home_word(s, i).load(simt::relaxed);  // relaxed: a guess
      // Ends: each pass clears a bit.
      GPUHEAP_NO_UNROLL
      while (bits != 0) {
        uint64_t const bit = uint64_t{1} << simt::nth_set_bit(bits, nth % simt::popcount(bits));
        // relay: comes after the thread that brought the block home, and before the accesses to the block's words.
        if ((home_word(s, i).fetch_and(~bit, simt::relay) & bit) != 0) return at.block_id(s, i * 64 + simt::lowest_bit(bit));
        bits &= ~bit;
      }
    }
  }
  // Makes the lowest free segment one of class c, and claims blocks of it.
  [[nodiscard]] GPUHEAP_COLD block_claim grow(unsigned c, unsigned wanted) {
    auto const tree = at.free_segments();
    uint32_t s = tree.claim(0);
    if (s == tree_type::none) s = tree.claim_run(1);  // claim_run() misses no free segment
    if (s == tree_type::none) return {};
    unsigned const n = at.blocks_of(c), mine = wanted < n ? wanted : n;
    // relaxed, all: the word's release publishes them.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i != at.home_words(); ++i) {
      home_word(s, i).store(i * 64 < n ? simt::low_bits(n - i * 64) : 0, simt::relaxed);
    }
    // release: pairs with take().
    at.segment(s).ref().store(segment_word::of_class(c, n - mine).bits, simt::release);
    if (mine != n) at.segments_with_blocks(c).set(s);
    return {s, mine};
  }
  // Makes segment s free, whose blocks of class c were all seen home. Returns false if a thread has claimed one since.
  GPUHEAP_FN bool free_segment(uint32_t s, unsigned c) {
    relocations().begin();
    bool const mine = at.segment(s).release(c, at.blocks_of(c));
    if (mine) {
      if (at.blocks_of(c) != 1) (void)at.segments_with_blocks(c).take(s);
      at.free_segments().set(s);
    }
    relocations().end();
    return mine;
  }

 protected:
  [[nodiscard]] GPUHEAP_FN Derived& self() { return static_cast<Derived&>(*this); }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint64_t> home_word(uint32_t s, unsigned i) const {
    return simt::global_ref<uint64_t>{at.homes_of(s)[i]};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::gallatin_parts
