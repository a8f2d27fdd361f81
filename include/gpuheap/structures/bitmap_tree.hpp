// A set of small integers as a bitmap with summaries: leaves of 64 bits, a middle word for 64 leaves, and a top word for 64 middle words.
//
// At rest, a leaf with a set bit has its bit in the middle word set, and that word has its bit in the top word set. A summary bit over an
// empty leaf may be set as well. Such a *stale* bit makes a search read an empty leaf, and clear_stale() clears the bit.
//
//   set:          leaf |= bits;  middle |= bit;  top |= bit                       (always all three, in this order)
//   clear_stale:  middle &= ~bit;  if leaf != 0: middle |= bit, top |= bit        (and likewise for the top word over an empty middle word)
// All are read-modify-writes that acquire and release. If the `and` of clear_stale comes before the `or` of set, the `or` restores the bit.
// If the `and` comes after the `or`, it has read from the `or`, and clear_stale finds the bits in the leaf. No fence is needed. During
// clear_stale a summary bit may be missing for a moment. A thread that must not miss a bit checks afterwards that no relocation was open
// (relocation_count), or asks for an exact search, which reads only leaves. A thread that stops in the middle of set, while others take its
// bits and clear the summary, leaves a top bit over an empty middle word. A search finds no leaf below this top bit, so no thread clears
// the top bit until a leaf below it has had a bit again. Until then the top bit makes each search read the empty middle word, and has no
// other effect.
//
// As an ordered set: set() inserts, take() removes; contains(), successor(), predecessor() search. claim() takes the first bit from a given
// bit on, claim_any() a bit that other threads are unlikely to try, claim_run() the highest n neighbouring bits. A search only guesses,
// since another thread may take the bit that it found. So a claim that loses its bit goes on with the next one.
//
// A bit can also say whether a condition holds that several threads change. Each of these threads recomputes the bit after its change.
//   recompute:  the condition holds ? leaf |= bit : leaf &= ~bit;  again if the condition has changed meanwhile
// The thread that changes the leaf last has read from the leaf changes of all others. So its last check of the condition comes after their
// changes of the condition.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words that lie elsewhere. Leaves lie `leaf_stride` words apart, so that frequently used leaves can lie in different slices of
// the L2. A tree of up to 64 leaves has no top word.
struct bitmap_tree {
  using word = simt::uint64_t;
  static constexpr unsigned bits_per_leaf = 64;
  static constexpr unsigned none = ~0u;  // no bit

  word* leaves = nullptr;
  word* mids = nullptr;
  word* tops = nullptr;
  unsigned num_leaves = 0;
  unsigned leaf_stride = 1;

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned leaves_for(simt::uint64_t num_bits) {
    return static_cast<unsigned>(simt::ceil_div(num_bits, bits_per_leaf));
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned mids_for(unsigned num_leaves) { return (num_leaves + 63) / 64; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned tops_for(unsigned num_leaves) {
    return num_leaves > 64 ? (mids_for(num_leaves) + 63) / 64 : 0;
  }
  // Words of a tree: leaves and summaries.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned words_for(unsigned num_leaves, unsigned leaf_stride) {
    return num_leaves * leaf_stride + mids_for(num_leaves) + tops_for(num_leaves);
  }
  // The tree in words_for() words from `at` on.
  [[nodiscard]] GPUHEAP_HD static bitmap_tree over(word* at, unsigned num_leaves, unsigned leaf_stride) {
    word* const mids = at + simt::size_t{num_leaves} * leaf_stride;
    return {at, mids, mids + mids_for(num_leaves), num_leaves, leaf_stride};
  }
  [[nodiscard]] GPUHEAP_HD unsigned num_mids() const { return mids_for(num_leaves); }
  [[nodiscard]] GPUHEAP_HD unsigned num_tops() const { return tops_for(num_leaves); }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> leaf(unsigned i) const {
    return simt::global_ref<word>{leaves[simt::size_t{i} * leaf_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> mid(unsigned i) const { return simt::global_ref<word>{mids[i]}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> top(unsigned i) const { return simt::global_ref<word>{tops[i]}; }

  // Sets the bits `mask` of leaf i. Any thread.
  GPUHEAP_FN void set_mask(unsigned i, word mask) const {
    // The release publishes what the bits stand for to the thread that takes them. The head of this file argues the order of the three
    // words.
    set_words(&leaves[simt::size_t{i} * leaf_stride], &mids[i / 64], top_of(i), i, mask);
  }
  GPUHEAP_FN void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }

  // Takes the bits `mask` of leaf i, and returns those that were set. Any thread.
  GPUHEAP_FN word take_mask(unsigned i, word mask) const {
    // consume_release: acquires what the setter published; releases this thread's earlier accesses to the next thread that changes the
    // leaf.
    word const before = leaf(i).fetch_and(~mask, simt::consume_release);
    if ((before & ~mask) == 0) clear_stale(i);
    return before & mask;
  }
  // The same, without a change of the summaries. `emptied` becomes true if the leaf became empty: the caller then calls clear_stale() for
  // the leaf, or leaves that to a search that reads it. Until then other threads may read the empty leaf because of its stale bit.
  GPUHEAP_FN word take_leaf_only(unsigned i, word mask, bool& emptied) const {
    // consume_release: as above.
    word const before = leaf(i).fetch_and(~mask, simt::consume_release);
    emptied = (before & ~mask) == 0;
    return before & mask;
  }
  // Clears a bit. The caller knows that the bit stands for nothing any more. The bit may be clear already. relaxed: the call publishes
  // nothing.
  GPUHEAP_FN void erase(unsigned bit) const { leaf(bit / 64).fetch_and(~(word{1} << (bit % 64)), simt::relaxed); }
  // Makes a bit equal to the answer of is_there(), whose loads acquire. A thread that changes the answer calls this afterwards. The bit may
  // differ from the answer during a call. While no call is under way it equals the answer.
  template <class Look>
  GPUHEAP_FN void recompute(unsigned bit, Look is_there) const {
    bool there = is_there();
    // Ends: a pass that goes on found that another thread has changed the answer. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (there) {
        set(bit);
        simt::fence(simt::acquire);  // the next is_there() comes after set()
      } else {
        clear(bit);
      }
      bool const now = is_there();
      if (now == there) return;
      there = now;
    }
  }
  // Takes one bit. True: it was set.
  GPUHEAP_FN bool take(unsigned bit) const { return take_mask(bit / 64, word{1} << (bit % 64)) != 0; }

  // Clears the summary bits of leaf i, which was seen empty, unless the leaf has a bit again. True: a summary bit over a set bit was
  // missing for a moment, and a thread that searched then may have missed that bit.
  GPUHEAP_FN bool clear_stale(unsigned i) const {
    return clear_stale_words(&leaves[simt::size_t{i} * leaf_stride], &mids[i / 64], top_of(i), i);
  }

  // Calls visit(i) for each leaf that may have a bit, from leaf `start` on, wrapping around, until a call returns true. Returns whether one
  // did. Any thread.
  template <class Visit>
  GPUHEAP_FN bool for_each_leaf(unsigned start, Visit visit) const {
    leaf_walk walk{start, start / 64};
    // Ends: the walk does.
    GPUHEAP_NO_UNROLL
    for (unsigned i; (i = next_of(walk)) != none;) {
      if (visit(i)) return true;
    }
    return false;
  }

  // A lane's result of bit_for_each(): a bit that was seen set, and a leaf that was seen empty although its summary bit was set.
  struct share {
    unsigned bit = none, empty_leaf = none;
  };
  // Gives each lane of `here` a set bit, in the order of the lanes, from bit `from` on, wrapping around; none to the lanes for which no bit
  // is left. `from` becomes the bit at which the next call continues. The lanes read one middle word each, then one leaf each, at the same
  // time. So set bits may remain even if no lane got one. All lanes of `here` call with the same `from`.
  [[nodiscard]] GPUHEAP_FN share bit_for_each(simt::lane_mask here, unsigned& from) const {
    unsigned const start = from;
    unsigned const i = leaf_for_each(here, from);
    // relaxed: a guess. The thread that takes a bit acquires.
    word bits = i != none ? leaf(i).load(simt::relaxed) : 0;
    share mine{none, i != none && bits == 0 ? i : none};
    if (i == start / 64 && simt::lane_id() == simt::lowest_bit(here)) bits &= ~simt::low_bits(start % 64);
    unsigned given = 0;
    mine.bit = distribute(here, bits, i, given);
    unsigned const last = simt::shuffle(here, mine.bit, simt::highest_bit(here));
    if (last != none) from = last + 1 < num_leaves * 64 ? last + 1 : 0;
    return mine;
  }

  // Whether any bit may be set. If false, no bit was set before the call, provided that no relocation was open and an acquire fence follows
  // the call. Any thread. After a search that found every leaf that it visited empty and cleared the leaves' summary bits, the answer is
  // false, even if top words have stale bits. A thread that searches until this answers false relies on that.
  [[nodiscard]] GPUHEAP_COLD bool maybe_any() const {
    // relaxed: the caller's fence acquires.
    GPUHEAP_NO_UNROLL
    for (unsigned m = 0; (m = next_mid(m)) < num_mids(); ++m) {
      if (mid(m).load(simt::relaxed) != 0) return true;
    }
    return false;
  }

  // ---- in order

  // Whether a bit is set. If so, its set() happens before the return. Any thread may call this and the functions below.
  [[nodiscard]] GPUHEAP_FN bool contains(unsigned bit) const {
    // acquire: pairs with the release of set().
    return (leaf(bit / 64).load(simt::acquire) >> (bit % 64) & 1) != 0;
  }

  // The lowest set bit from `from` on, or none. With `exact` the search reads no summaries, so it misses no bit that stays set during the
  // call.
  [[nodiscard]] GPUHEAP_FN unsigned successor(unsigned from, bool exact = false) const {
    unsigned const first = from / 64;
    // Ends: `i` rises.
    GPUHEAP_NO_UNROLL
    for (unsigned i = exact ? first : next_leaf(first); i < num_leaves; i = exact ? i + 1 : next_leaf(i + 1)) {
      // relaxed: a guess. The thread that takes the bit acquires.
      word bits = leaf(i).load(simt::relaxed);
      if (i == first) bits &= ~simt::low_bits(from % 64);
      if (bits != 0) return i * 64 + simt::lowest_bit(bits);
    }
    return none;
  }
  // The highest set bit up to `from`, or none.
  [[nodiscard]] GPUHEAP_FN unsigned predecessor(unsigned from) const {
    unsigned const first = from / 64;
    // Ends: `i` falls.
    GPUHEAP_NO_UNROLL
    for (unsigned i = previous_leaf(first); i != none; i = i == 0 ? none : previous_leaf(i - 1)) {
      word bits = leaf(i).load(simt::relaxed);  // relaxed: a guess; a thread that takes the bit acquires
      if (i == first) bits &= simt::low_bits(from % 64 + 1);
      if (bits != 0) return i * 64 + simt::highest_bit(bits);
    }
    return none;
  }

  // Takes the lowest set bit from `from` on and returns it, or none.
  [[nodiscard]] GPUHEAP_FN unsigned claim(unsigned from) const {
    unsigned bit = successor(from);
    // Ends: a pass that goes on lost its bit to another thread, and has seen it clear. Lock-free.
    GPUHEAP_NO_UNROLL
    while (bit != none && !take(bit)) bit = successor(bit);
    return bit;
  }

  // Takes a set bit and returns it; none if every leaf was seen empty. The first choice is the first bit from `from` on in `from`'s leaf,
  // wrapping around. If another thread takes that bit, the next choice is another bit of the leaf; if the leaf is empty, a bit of any leaf.
  // This order suits about as many threads as there are bits: threads that claim the lowest bit would all try the same bit, whereas this
  // order spreads them.
  [[nodiscard]] GPUHEAP_FN unsigned claim_any(unsigned from) const {
    unsigned spread = (simt::global_warp() * simt::warp_lanes + simt::lane_id() + 1) * 0x9e3779b1u;
    unsigned i = from / 64, nearest = from % 64;
    // relaxed: a guess.
    word bits = leaf(i).load(simt::relaxed);
    // release: what this thread did before; see take_mask(). One fence serves all tries, and overlaps with the load.
    simt::fence(simt::release);
    // Ends: a pass that goes on lost its bit to another thread, and has seen it clear. Lock-free.
    GPUHEAP_NO_UNROLL
    while (bits != 0 || (i = some_leaf(spread, bits)) != none) {
      unsigned const at = first_around(bits, nearest);
      word const mask = word{1} << at;
      // relay: comes after the fence, and after the setter.
      word const before = leaf(i).fetch_and(~mask, simt::relay);
      bits = before & ~mask;
      if ((before & mask) != 0) {
        if (bits == 0) clear_stale(i);
        return i * 64 + at;
      }
      spread = spread * 1664525u + 1013904223u;
      nearest = spread >> 26;
    }
    return none;
  }

  // Finds the highest n (> 0) neighbouring set bits below `end`, and returns the lowest of them, or none. Reads only leaves, so it misses
  // no bits that stay set during the call.
  [[nodiscard]] GPUHEAP_FN unsigned find_run(unsigned n, unsigned end) const {
    // The bits bit .. run_end - 1 were seen set.
    unsigned bit = end, run_end = end;
    // Ends: `bit` falls.
    GPUHEAP_NO_UNROLL
    while (bit != 0) {
      unsigned const left = (bit - 1) % 64 + 1;
      // The leaf's bits below `bit`, shifted so that bit - 1 becomes bit 63. relaxed: a guess; a thread that takes the bits acquires.
      word const below = leaf((bit - 1) / 64).load(simt::relaxed) << (64 - left);
      unsigned const ones = below == ~word{0} ? 64 : 63 - simt::highest_bit(~below);
      bit -= ones;
      if (run_end - bit >= n) return run_end - n;
      if (ones == left) continue;
      word const rest = below << ones;
      bit -= rest == 0 ? left - ones : 63 - simt::highest_bit(rest);
      run_end = bit;
    }
    return none;
  }
  // Takes n neighbouring bits from `first` on. Returns none if it took all; otherwise it took nothing, and returns the highest bit that was
  // not set. Until the call has put bits back, other threads see these bits as clear.
  [[nodiscard]] GPUHEAP_FN unsigned take_run(unsigned first, unsigned n) const {
    // Ends: `end` falls.
    GPUHEAP_NO_UNROLL
    for (unsigned end = first + n; end != first;) {
      unsigned const i = (end - 1) / 64;
      word const wanted = bits_of_run(i, first, end), got = take_mask(i, wanted);
      if (got != wanted) {
        if (got != 0) set_mask(i, got);
        set_run(end, first + n - end);
        return i * 64 + simt::highest_bit(wanted & ~got);
      }
      end = i * 64 > first ? i * 64 : first;
    }
    return none;
  }
  // Sets n neighbouring bits from `first` on. The thread waits once for each level of the tree, not once for each leaf. Any thread.
  GPUHEAP_COLD void set_run(unsigned first, unsigned n) const {
    if (n == 0) return;
    unsigned const begin = first / 64, end = (first + n - 1) / 64 + 1;
    if (end - begin == 1) return set_mask(begin, bits_of_run(begin, first, first + n));
    simt::fence(simt::release);
    // relay: comes after the fence, and after what earlier changes of the leaf published.
    GPUHEAP_NO_UNROLL
    for (unsigned i = begin; i != end; ++i) leaf(i).fetch_or(bits_of_run(i, first, first + n), simt::relay);
    // consume_release, both: each comes after the level below; see the head of this file.
    GPUHEAP_NO_UNROLL
    for (unsigned m = begin / 64; m * 64 < end; ++m) mid(m).fetch_or(bits_of_run(m, begin, end), simt::consume_release);
    GPUHEAP_NO_UNROLL
    for (unsigned m = begin / 64; m * 64 < end && num_tops() != 0; ++m) top(m / 64).fetch_or(word{1} << (m % 64), simt::consume_release);
  }
  // Takes n neighbouring bits from `first` on: all, or none and returns false. The summaries stay as they are, as after take_leaf_only().
  // The thread waits once for four leaves. Any thread. Out of line: inlined, it needs more registers than every kernel with a malloc has.
  GPUHEAP_COLD bool take_run_leaves_only(unsigned first, unsigned n) const {
    constexpr unsigned at_once = 4;
    unsigned const begin = first / 64, last = (first + n - 1) / 64;
    word const in_first = ~simt::low_bits(first % 64), in_last = simt::low_bits((first + n - 1) % 64 + 1);
    auto const wanted_of = [&](unsigned i) {
      return i > last ? word{0} : (i == begin ? in_first : ~word{0}) & (i == last ? in_last : ~word{0});
    };
    // release: this thread's earlier accesses, for the next thread that changes a leaf.
    simt::fence(simt::release);
    GPUHEAP_NO_UNROLL
    for (unsigned i = begin; i <= last; i += at_once) {
      // Loops of fixed length, which the compiler unrolls: the four atomics are in flight together.
      word before[at_once], missing = 0;
      for (unsigned k = 0; k != at_once; ++k) {
        word const wanted = wanted_of(i + k);
        // relay: comes after the fence, and after the setter.
        before[k] = wanted != 0 ? leaf(i + k).fetch_and(~wanted, simt::relay) : 0;
      }
      for (unsigned k = 0; k != at_once; ++k) missing |= wanted_of(i + k) & ~before[k];
      if (missing == 0) continue;
      GPUHEAP_NO_UNROLL
      for (unsigned k = 0; k != at_once; ++k) {
        // Chooses by comparisons, so that the array stays in registers.
        word const got = wanted_of(i + k) & (k == 0 ? before[0] : k == 1 ? before[1] : k == 2 ? before[2] : before[3]);
        if (got != 0) set_mask(i + k, got);
      }
      if (i * 64 > first) set_run(first, i * 64 - first);
      return false;
    }
    return true;
  }
  // Takes the highest n (> 0) neighbouring set bits and returns the lowest of them, or none. Two threads may each take a part of the bits
  // that the other wants, and both fail. If that must not happen, the callers take turns.
  [[nodiscard]] GPUHEAP_FN unsigned claim_run(unsigned n) const {
    unsigned end = num_leaves * 64;
    // Ends: `end` falls: the next try lies below the bit that was missing.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned const first = find_run(n, end);
      if (first == none) return none;
      end = take_run(first, n);
      if (end == none) return first;
    }
  }

 private:
  // The state of for_each_leaf(). It lies in the stack frame, so that the callers share next_of().
  struct leaf_walk {
    unsigned start, next;  // the first leaf; the next middle word
    bool wrapped = false;
    unsigned m = 0;  // the middle word that is walked
    word bits = 0;   // its bits whose leaves were not visited
  };
  // The next leaf of a walk, or none.
  GPUHEAP_COLD unsigned next_of(leaf_walk& walk) const {
    unsigned const m0 = walk.start / 64;
    // Ends: `m` rises to the end, once from m0, and after the wrap once from 0 to m0.
    GPUHEAP_NO_UNROLL
    while (walk.bits == 0) {
      walk.m = next_mid(walk.next);
      walk.next = walk.m + 1;
      if (walk.m >= num_mids() || (walk.wrapped && walk.m > m0)) {
        if (walk.wrapped) return none;
        walk.wrapped = true;
        walk.next = 0;
        continue;
      }
      // relaxed: a guess. The thread that takes a bit acquires.
      walk.bits = mid(walk.m).load(simt::relaxed);
      if (walk.m == m0) walk.bits &= walk.wrapped ? simt::low_bits(walk.start % 64) : ~simt::low_bits(walk.start % 64);
    }
    unsigned const i = walk.m * 64 + simt::lowest_bit(walk.bits);
    walk.bits &= walk.bits - 1;
    return i;
  }
  // Distributes the set bits of the lanes' words to the lanes in their order: bit b of a word i is i * 64 + b. Returns this lane's bit, or
  // none. `given` becomes the number of set bits. The time does not depend on how the bits lie in the words, since a whole launch may wait
  // for this function.
  GPUHEAP_FN static unsigned distribute(simt::lane_mask here, word bits, unsigned i, unsigned& given) {
    // Often one lane calls alone.
    if ((here & (here - 1)) == 0) {
      given = simt::popcount(bits);
      return bits != 0 ? i * 64 + simt::lowest_bit(bits) : none;
    }
    simt::uint64_t const dealt = distribute_to_several(here, bits, i);
    given = static_cast<unsigned>(dealt >> 32);
    return static_cast<unsigned>(dealt);
  }
  // Bits 0..31: this lane's bit, or none. Bits 32..63: the number of set bits.
  GPUHEAP_COLD static simt::uint64_t distribute_to_several(simt::lane_mask here, word bits, unsigned i) {
    warp_group const g{here};
    unsigned given = 0;
    unsigned const rank = g.rank(), before = g.sum_before(simt::popcount(bits), given);
    // Becomes the rank of the lane whose word has this lane's bit. It is the last lane for which the words of lower lanes have at most
    // `rank` bits.
    unsigned owner = 0;
    GPUHEAP_NO_UNROLL
    for (unsigned step = simt::warp_lanes / 2; step != 0; step /= 2) {
      bool const is_there = owner + step < g.size();
      unsigned const theirs = simt::shuffle(here, before, g.lane(is_there ? owner + step : owner));
      if (is_there && theirs <= rank) owner += step;
    }
    unsigned const lane = g.lane(owner), skipped = simt::shuffle(here, before, lane), first = simt::shuffle(here, i, lane) * 64;
    word const there = simt::shuffle(here, bits, lane);
    return simt::uint64_t{given} << 32 | (rank < given ? first + simt::nth_set_bit(there, rank - skipped) : none);
  }
  // Gives each lane of `here` a leaf that may have a bit, from the leaf of bit `from` on, wrapping around; none to lanes for which no leaf
  // is left. `from` becomes the first bit of the leaf at which the next call continues.
  [[nodiscard]] GPUHEAP_FN unsigned leaf_for_each(simt::lane_mask here, unsigned& from) const {
    warp_group const g{here};
    unsigned const rank = g.rank(), lanes = g.size(), num = num_mids(), start = from / 64, first = start / 64;
    // The first middle word is read twice: rank 0 takes its bits from `start` on, rank `num` its bits below `start`.
    unsigned const m = first + rank < num ? first + rank : first + rank - num;
    // relaxed: a guess.
    word bits = rank <= num ? mid(m).load(simt::relaxed) : 0;
    if (rank == 0) bits &= ~simt::low_bits(start % 64);
    if (rank == num) bits &= simt::low_bits(start % 64);
    unsigned given = 0;
    unsigned const mine = distribute(here, bits, m, given);
    if (given >= lanes) {
      unsigned const next = simt::shuffle(here, mine, simt::highest_bit(here)) + 1;
      from = next < num_leaves ? next * 64 : 0;
    } else {
      // If the lanes read all middle words, the next call begins with `start`'s leaf, of which bit_for_each() may have left out the bits
      // below `from`.
      from = lanes <= num ? (first + lanes) % num * 64 * 64 : start * 64;
    }
    return mine;
  }
  GPUHEAP_FN void clear(unsigned bit) const {
    word const mask = word{1} << (bit % 64);
    // acq_rel: the next is_there() of recompute() comes after this.
    if ((leaf(bit / 64).fetch_and(~mask, simt::acq_rel) & ~mask) == 0) clear_stale(bit / 64);
  }

  // Out of line, with plain pointers as parameters: many slow paths call the next two functions, which are most of a tree's code.
  GPUHEAP_COLD static void set_words(word* leaf, word* mid, word* top, unsigned i, word mask) {
    using ref = simt::global_ref<word>;
    ref{*leaf}.fetch_or(mask, simt::consume_release);
    // consume_release, all three: each comes after the one before; see the head of this file.
    ref{*mid}.fetch_or(word{1} << (i % 64), simt::consume_release);
    if (top != nullptr) ref{*top}.fetch_or(word{1} << (i / 64 % 64), simt::consume_release);
  }
  GPUHEAP_COLD static bool clear_stale_words(word* leaf, word* mid, word* top, unsigned i) {
    using ref = simt::global_ref<word>;
    word const bit = word{1} << (i % 64), top_bit = word{1} << (i / 64 % 64);
    word const before = ref{*mid}.fetch_and(~bit, simt::acq_rel);
    bool const filled = ref{*leaf}.load(simt::acquire) != 0;
    if (filled) ref{*mid}.fetch_or(bit, simt::acq_rel);
    if (top == nullptr || (!filled && (before & ~bit) != 0)) return filled;
    if (!filled) {
      ref{*top}.fetch_and(~top_bit, simt::acq_rel);
      if (ref{*mid}.load(simt::acquire) == 0) return false;
    }
    ref{*top}.fetch_or(top_bit, simt::acq_rel);
    return true;
  }
  // Returns a leaf that has bits, chosen by the 32 bits of `spread`, and its word in `bits`; none if every leaf that the summaries name was
  // seen empty. The function loads two leaves at a time and takes the fuller one, so that most threads go where most bits are.
  [[nodiscard]] GPUHEAP_FN unsigned some_leaf(unsigned spread, word& bits) const {
    unsigned const m0 = static_cast<unsigned>(simt::uint64_t{spread} * num_mids() >> 32);
    bool wrapped = false;
    // Ends: `m` rises to the end, once from m0, and after the wrap once from 0 to m0. The first middle word is read whether or not its top
    // bit is set.
    GPUHEAP_NO_UNROLL
    for (unsigned m = m0;;) {
      // relaxed, all: guesses.
      word marked = mid(m).load(simt::relaxed);
      // Ends: `marked` loses one bit or two a pass.
      GPUHEAP_NO_UNROLL
      while (marked != 0) {
        unsigned const one = first_around(marked, spread >> 8 & 63);
        marked &= ~(word{1} << one);
        unsigned const other = marked != 0 ? first_around(marked, spread >> 14 & 63) : one;
        marked &= ~(word{1} << other);
        word const of_one = leaf(m * 64 + one).load(simt::relaxed), of_other = leaf(m * 64 + other).load(simt::relaxed);
        bool const first = simt::popcount(of_one) >= simt::popcount(of_other);
        bits = first ? of_one : of_other;
        if (bits != 0) return m * 64 + (first ? one : other);
      }
      m = next_mid(m + 1);
      if (m >= num_mids() && !wrapped) {
        wrapped = true;
        m = next_mid(0);
      }
      if (m >= num_mids() || (wrapped && m > m0)) return none;
    }
  }
  // The first set bit of x (not 0) from bit r on, wrapping around.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned first_around(word x, unsigned r) {
    word const above = x & ~simt::low_bits(r);
    return simt::lowest_bit(above != 0 ? above : x);
  }
  [[nodiscard]] GPUHEAP_FN word* top_of(unsigned i) const { return num_tops() == 0 ? nullptr : &tops[i / 4096]; }
  // The first middle word from m on that may have a bit; num_mids() or more if there is none.
  [[nodiscard]] GPUHEAP_FN unsigned next_mid(unsigned m) const {
    if (num_tops() == 0) return m;
    GPUHEAP_NO_UNROLL
    for (unsigned t = m / 64; t < num_tops(); ++t) {
      word bits = top(t).load(simt::relaxed);
      if (t == m / 64) bits &= ~simt::low_bits(m % 64);
      if (bits != 0) return t * 64 + simt::lowest_bit(bits);
    }
    return num_mids();
  }
  // The first leaf from i on that may have a bit; num_leaves or more if there is none.
  [[nodiscard]] GPUHEAP_FN unsigned next_leaf(unsigned i) const {
    // Ends: `m` rises.
    GPUHEAP_NO_UNROLL
    for (unsigned m = next_mid(i / 64); m < num_mids(); m = next_mid(m + 1)) {
      word bits = mid(m).load(simt::relaxed);
      if (m == i / 64) bits &= ~simt::low_bits(i % 64);
      if (bits != 0) return m * 64 + simt::lowest_bit(bits);
    }
    return num_leaves;
  }
  // The last leaf up to i that may have a bit, or none.
  [[nodiscard]] GPUHEAP_FN unsigned previous_leaf(unsigned i) const {
    // Ends: `m` falls.
    GPUHEAP_NO_UNROLL
    for (unsigned m = previous_mid(i / 64); m != none; m = m == 0 ? none : previous_mid(m - 1)) {
      word bits = mid(m).load(simt::relaxed);
      if (m == i / 64) bits &= simt::low_bits(i % 64 + 1);
      if (bits != 0) return m * 64 + simt::highest_bit(bits);
    }
    return none;
  }
  // The last middle word up to m that may have a bit, or none.
  [[nodiscard]] GPUHEAP_FN unsigned previous_mid(unsigned m) const {
    if (num_tops() == 0) return m;
    GPUHEAP_NO_UNROLL
    for (unsigned t = m / 64 + 1; t-- != 0;) {
      word bits = top(t).load(simt::relaxed);
      if (t == m / 64) bits &= simt::low_bits(m % 64 + 1);
      if (bits != 0) return t * 64 + simt::highest_bit(bits);
    }
    return none;
  }
  // The bits of leaf i that lie in first .. end - 1.
  [[nodiscard]] GPUHEAP_HD static constexpr word bits_of_run(unsigned i, unsigned first, unsigned end) {
    unsigned const from = first > i * 64 ? first - i * 64 : 0, to = end - i * 64 < 64 ? end - i * 64 : 64;
    return simt::low_bits(to) & ~simt::low_bits(from);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
