// Segments: the use of each and the number of its blocks that no thread has, in one word; and the trees in which segments with something to
// take are found.
//
//   word   bit 0     32      40
//          | count  | kind  | 0 |
//
//   kind    free: in the tree of free segments, or just taken from it or being put into it.   head, tail: of a run of segments.
//           otherwise the class of its blocks
//   count   of a class: blocks that are home and that no thread has a claim to.   head: segments of the run
//
// Count and kind change together: a thread that takes a block has seen the segment's kind, and no thread takes a block that is not there,
// not even for a moment. So the word itself tells when all blocks are home, and one of the threads that see this makes the segment free.
// The compare-exchanges mean the same whatever happened to the word in between.
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
  // relaxed: a guess; or the caller has something of the segment, and the kind cannot change.
  [[nodiscard]] GPUHEAP_FN segment_word look() const { return {ref().load(simt::relaxed)}; }

  // Takes up to `wanted` of the blocks of class c that are home, and sets `left` to the number that remain. Returns how many it took.
  //
  // Of many threads that saw the word at the same time only one can win it, and the next one a round trip later. So a thread that has lost
  // it guesses, every other time, how many threads have taken their blocks before its exchange arrives: of threads with different guesses,
  // more than one win.
  [[nodiscard]] GPUHEAP_FN unsigned take(unsigned c, unsigned wanted, unsigned& left) const {
    segment_word seen = look();
    // Ends: of two passes that go on the first lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    for (unsigned attempt = 0; seen.is_of_class(c) && seen.count() != 0; ++attempt) {
      unsigned const ahead = attempt % 2 == 0 ? 0 : wanted * ((simt::global_warp() + attempt) * 0x9e3779b1u >> 29);
      if (ahead < seen.count()) seen.bits -= ahead;
      unsigned const n = wanted < seen.count() ? wanted : seen.count();
      left = seen.count() - n;
      // relay: comes after threads that brought blocks home, and before the accesses to some of them.
      if (ref().compare_exchange(seen.bits, seen.bits - n, simt::relay, simt::relaxed)) return n;
    }
    return 0;
  }
  // Adds a block that is home, and returns the word as it was.
  [[nodiscard]] GPUHEAP_FN segment_word give() const {
    // consume_release: the block's home bit comes before, so that it is not set when the segment has another use already.
    return {ref().fetch_add(1, simt::consume_release)};
  }
  // Makes the segment free if all n blocks of class c are home. True for one thread.
  [[nodiscard]] GPUHEAP_FN bool release(unsigned c, unsigned n) const {
    uint64_t all = segment_word::of_class(c, n).bits;
    // relay: between threads that brought the blocks home and the thread that takes the segment from the tree.
    return ref().compare_exchange(all, 0, simt::relay, simt::relaxed);
  }
};

// Blocks of a segment that a thread has taken from its word, and finds by take_home(), each once.
struct block_claim {
  uint32_t segment = 0;
  unsigned count = 0;  // 0: none
};

// All segments, and the blocks that no thread has. Device, any thread; not inlined, and on a state in memory, so that the view's fast path
// stays small. `Derived` is the whole state: the parts that tests replace are called through it.
template <gallatin_config Config, class Parts, class Derived>
struct alignas(128) segment_pool {
  using layout_type = layout<Config, Parts>;
  using tree_type = typename Parts::tree;
  static constexpr unsigned num_classes = layout_type::num_classes;

  layout_type at;
  // Counts moves of things to the place where they can be used: idle blocks to their segment, segments to the tree of free ones. Also
  // claims of runs, which may be put back.
  alignas(128) uint64_t relocation_word = 0;
  alignas(128) uint32_t run_lock = 0;                    // held while a run is claimed
  alignas(128) uint32_t growth_locks[num_classes] = {};  // held while a free segment becomes one of the class

  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() { return {&relocation_word}; }

  // ---- blocks

  // Takes up to `wanted` blocks of class c that no thread has, of one segment.
  [[nodiscard]] GPUHEAP_FN block_claim obtain(unsigned c, unsigned wanted) {
    block_claim got = self().take_from_tree(c, wanted, false);
    if (got.count != 0) return got;
    // A segment that is one block needs no lock.
    if (at.blocks_of(c) == 1) return self().grow(c, wanted);
    structures::spin_lock const lock{&growth_locks[c]};
    simt::back_off pause;
    // One thread makes a segment for all: without the lock, each would make one. The others look for blocks of it meanwhile, all at once.
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

  // Puts back a block that is home: all slices are back, or no thread had any. True if its segment became free.
  GPUHEAP_COLD bool put_back(uint32_t id, unsigned c) {
    uint32_t const s = at.segment_of(id);
    unsigned const place = at.place_of(id), n = at.blocks_of(c);
    at.block(id).close();
    // consume_release: close() comes before a thread that opens the block next.
    home_word(s, place / 64).fetch_or(uint64_t{1} << (place % 64), simt::consume_release);
    segment_word const before = at.segment(s).give();
    // A segment that had no block is in no tree, or a thread that will look again is about to remove it.
    if (before.count() == 0 && n != 1) at.segments_with_blocks(c).set(s);
    return before.count() + 1 == n && self().free_segment(s, c);
  }

  // ---- runs

  // Takes k segments (k > 0), or returns nullptr.
  [[nodiscard]] GPUHEAP_FN void* take_run(uint32_t k) {
    uint32_t first = tree_type::none;
    auto const tree = at.free_segments();
    // One thread at a time: claims that overlap would defeat each other. A look comes first: no claim is made if there is nothing.
    structures::spin_lock{&run_lock}.run([&] {
      if (tree.find_run(k, at.tree_leaves() * 64) == tree_type::none) return;
      relocations().begin();
      first = tree.claim_run(k);
      relocations().end();
    });
    if (first == tree_type::none) return nullptr;
    // relaxed, all: no other thread looks at them before the caller hands the pointer on.
    at.segment(first).ref().store(segment_word::of(segment_word::head, k).bits, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (uint32_t s = first + 1; s != first + k; ++s)
      at.segment(s).ref().store(segment_word::of(segment_word::tail, 0).bits, simt::relaxed);
    return at.segment_at(first);
  }
  // Gives back the run whose first segment's word was `seen`. False if another thread did.
  [[nodiscard]] GPUHEAP_FN bool give_run(uint32_t first, segment_word seen) {
    uint32_t const k = seen.count();
    // relay: after the fence at the beginning of free().
    if (!at.segment(first).ref().compare_exchange(seen.bits, 0, simt::relay, simt::relaxed)) return false;
    // First the words, then the bits: a thread that takes a segment finds it free. relaxed: set_run() releases.
    GPUHEAP_NO_UNROLL
    for (uint32_t s = first + 1; s != first + k; ++s) at.segment(s).ref().store(0, simt::relaxed);
    at.free_segments().set_run(first, k);
    return true;
  }

  // ---- steps

  // Takes blocks of the first segment that has some. With `exact`, none is missed that is there all the time.
  [[nodiscard]] GPUHEAP_FN block_claim take_from_tree(unsigned c, unsigned wanted, bool exact) {
    auto const tree = at.segments_with_blocks(c);
    // Ends: a pass that goes on removed a bit, which comes back only when another thread brings a block home.
    GPUHEAP_NO_UNROLL
    for (unsigned s = tree.successor(0, exact); s != tree_type::none; s = tree.successor(s, exact)) {
      unsigned left = 1;
      unsigned const got = at.segment(s).take(c, wanted, left);
      if (got == 0 || left == 0) self().unlist(c, s);
      if (got != 0) return {s, got};
    }
    return {};
  }
  // Removes a segment that was seen without blocks from its tree, unless it has got one since: the thread that brought that block home may
  // have set the bit before. A bit that is set later than its segment has blocks is left to the next thread that finds it.
  GPUHEAP_FN void unlist(unsigned c, uint32_t s) {
    at.segments_with_blocks(c).recompute(s, [&] {
      // acquire: recompute() requires it.
      segment_word const now{at.segment(s).ref().load(simt::acquire)};
      return now.is_of_class(c) && now.count() != 0;
    });
  }
  // Takes a block of a segment that is home. The caller has taken it from the segment's word. `nth`: threads that come at the same time
  // have different values, so that they do not try for the same block.
  [[nodiscard]] GPUHEAP_FN uint32_t take_home(uint32_t s, unsigned nth) {
    // Ends: as many blocks are home as threads have taken one from the word and not yet found it, so a pass that finds none met another's
    // change. Lock-free.
    GPUHEAP_NO_UNROLL
    for (unsigned i = nth % at.home_words();; i = i + 1 == at.home_words() ? 0 : i + 1) {
      uint64_t bits = home_word(s, i).load(simt::relaxed);  // relaxed: a guess
      // Ends: one pass a bit.
      GPUHEAP_NO_UNROLL
      while (bits != 0) {
        uint64_t const bit = uint64_t{1} << simt::nth_set_bit(bits, nth % simt::popcount(bits));
        // relay: comes after the thread that brought it home, and before the accesses to the block's words.
        if ((home_word(s, i).fetch_and(~bit, simt::relay) & bit) != 0) return at.block_id(s, i * 64 + simt::lowest_bit(bit));
        bits &= ~bit;
      }
    }
  }
  // Makes the lowest free segment one of class c and takes blocks of it.
  [[nodiscard]] GPUHEAP_COLD block_claim grow(unsigned c, unsigned wanted) {
    auto const tree = at.free_segments();
    uint32_t s = tree.claim(0);
    if (s == tree_type::none) s = tree.claim_run(1);  // which misses none
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
  // Makes a segment free whose blocks of class c were all seen home. False: one has been taken since.
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
