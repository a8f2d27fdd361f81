// A set of small integers as a bitmap with summaries: leaves of 64 bits, a middle word for 64 leaves, and a top word for 64 middle words.
//
// Invariant, whenever no operation is under way: a leaf with a bit set has its bit in the middle word set, and that word its bit in the
// top word. The converse may fail: a summary bit over nothing costs a look and is dropped by clear_stale().
//
//   set:   leaf |= bits;  middle |= bit;  top |= bit                    (all always, in this order)
//   tidy:  middle &= ~bit;  leaf != 0 ? (middle |= bit; top |= bit)     and likewise for the top word over an empty middle word
// All are read-modify-writes that acquire and release: if tidy's `and` comes first, the setter's `or` restores the bit; if it comes second,
// it has read from the setter's `or`, so its look below finds the setter's bits. No fence is needed. While a tidy is under way a
// summary bit can be missing for a moment: who must not miss a bit checks afterwards that no take was under way (relocation_count), or asks
// for an exact search, which reads the leaves only.
// A setter that stops before its last step, while others take its bits and tidy, leaves a top bit over an empty middle word. No search
// comes to a leaf by it, so nobody tidies it until a leaf below has had a bit again: it costs a look, and says nothing.
//
// As an ordered set: set() inserts, take() removes, contains(), successor(), predecessor(); claim() takes the first from a place on,
// claim_any() one that others are not after, and claim_run() neighbours at the far end. Searches guess, and only a take decides: what is
// found may be gone, so claims go on with the next.
//
// A bit can also say what is true of something else, which changes at several threads' hands: each of them settles the bit after its
// change.
//   settle:  leaf |= bit, or leaf &= ~bit, as it is;  once more if it is otherwise by now
// The thread that changes the leaf last has read from the changes of all others, so its last look comes after what they settled.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words that live elsewhere. Leaves lie `leaf_stride` words apart, to spread hot ones over the memory's slices. Up to 64 leaves
// need no top word, and there is none.
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
  // Words that a tree takes, leaves and summaries.
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

  // Adds the bits `mask` of leaf i. Any thread.
  GPUHEAP_FN void set_mask(unsigned i, word mask) const {
    // Publishes what the bits stand for to whoever takes them; see the head for the summaries' pairing.
    set_words(&leaves[simt::size_t{i} * leaf_stride], &mids[i / 64], top_of(i), i, mask);
  }
  GPUHEAP_FN void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }

  // Takes the bits `mask` of leaf i; returns those that were there. Any thread.
  GPUHEAP_FN word take_mask(unsigned i, word mask) const {
    // consume_release: acquires what the setter published; releases this thread's earlier accesses to the next setter or taker of the leaf.
    word const before = leaf(i).fetch_and(~mask, simt::consume_release);
    if ((before & ~mask) == 0) clear_stale(i);
    return before & mask;
  }
  // The same for a taker who is in a hurry: a leaf that it empties keeps its summary bit, and `emptied` tells to clear_stale() it later.
  // Until then the bit costs others a look.
  GPUHEAP_FN word take_leaf_only(unsigned i, word mask, bool& emptied) const {
    // consume_release: as above.
    word const before = leaf(i).fetch_and(~mask, simt::consume_release);
    emptied = (before & ~mask) == 0;
    return before & mask;
  }
  // Drops one bit, if it is there, whose owner knows that it stands for nothing any more.
  GPUHEAP_FN void erase(unsigned bit) const { leaf(bit / 64).fetch_and(~(word{1} << (bit % 64)), simt::relaxed); }
  // Makes a bit say what is_there() answers. Who changes that calls this afterwards; is_there() reads with acquire. While a call is under
  // way the bit can be wrong, and with nothing under way it is right.
  template <class Look>
  GPUHEAP_FN void recompute(unsigned bit, Look is_there) const {
    bool there = is_there();
    // Ends: a pass that goes on found that another thread has changed it since the look before. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (there) {
        set(bit);
        simt::fence(simt::acquire);  // the next look comes after it
      } else {
        clear(bit);
      }
      bool const now = is_there();
      if (now == there) return;
      there = now;
    }
  }
  // Takes one bit; true if it was there.
  GPUHEAP_FN bool take(unsigned bit) const { return take_mask(bit / 64, word{1} << (bit % 64)) != 0; }

  // Drops the summary bits of a leaf that was seen empty, unless it no longer is. True if a bit was missing for a moment over something:
  // who looked then may have drawn conclusions.
  GPUHEAP_FN bool clear_stale(unsigned i) const {
    return clear_stale_words(&leaves[simt::size_t{i} * leaf_stride], &mids[i / 64], top_of(i), i);
  }

  // Calls visit(i) for the leaves that may have a bit, from leaf `start` on and around, until it returns true. Returns that. Any thread.
  template <class Visit>
  GPUHEAP_FN bool for_each_leaf(unsigned start, Visit visit) const {
    unsigned const m0 = start / 64;
    bool wrapped = false;
    // Ends: `m` goes up to the end, once from m0 and once, after the wrap, from 0 to m0.
    GPUHEAP_NO_UNROLL
    for (unsigned m = m0;;) {
      m = next_mid(m);
      if (m >= num_mids() || (wrapped && m > m0)) {
        if (wrapped) return false;
        wrapped = true;
        m = 0;
        continue;
      }
      // relaxed: a guess; whoever takes a bit acquires.
      word bits = mid(m).load(simt::relaxed);
      if (m == m0) bits &= wrapped ? simt::low_bits(start % 64) : ~simt::low_bits(start % 64);
      GPUHEAP_NO_UNROLL
      for (; bits != 0; bits &= bits - 1) {
        if (visit(m * 64 + simt::lowest_bit(bits))) return true;
      }
      ++m;
    }
  }

  // What a lane has of bit_for_each(): a bit that was seen set; and a leaf that has a summary bit and was seen empty, to tidy.
  struct share {
    unsigned bit = none, empty_leaf = none;
  };
  // A set bit for each lane of `here`, in the order of the lanes, from bit `from` on and around; none for the lanes that are left over.
  // `from` becomes the bit from which to go on. It looks at no more middle words, and then at no more leaves, than there are lanes, all at
  // once: there may be bits though all lanes got none. All lanes of `here` call with the same `from`.
  [[nodiscard]] GPUHEAP_FN share bit_for_each(simt::lane_mask here, unsigned& from) const {
    unsigned const start = from;
    unsigned const i = leaf_for_each(here, from);
    // relaxed: a guess; whoever takes a bit acquires.
    word bits = i != none ? leaf(i).load(simt::relaxed) : 0;
    share mine{none, i != none && bits == 0 ? i : none};
    if (i == start / 64 && simt::lane_id() == simt::lowest_bit(here)) bits &= ~simt::low_bits(start % 64);
    unsigned given = 0;
    mine.bit = distribute(here, bits, i, given);
    unsigned const last = simt::shuffle(here, mine.bit, simt::highest_bit(here));
    if (last != none) from = last + 1 < num_leaves * 64 ? last + 1 : 0;
    return mine;
  }

  // Whether any bit may be set. False is exact for sets that happened before, if no take was under way and an acquire fence follows. Any
  // thread. Once all leaves that a search visits have been found empty and tidied, it is false, whatever the top words say: who goes on
  // searching for as long as there may be something relies on that.
  [[nodiscard]] GPUHEAP_FN bool maybe_any() const {
    // Ends: `m` rises. relaxed: see above.
    GPUHEAP_NO_UNROLL
    for (unsigned m = next_mid(0); m < num_mids(); m = next_mid(m + 1)) {
      if (mid(m).load(simt::relaxed) != 0) return true;
    }
    return false;
  }

  // ---- in order

  // Whether a bit is set. Ordered after its set(). Any thread, as all of these.
  [[nodiscard]] GPUHEAP_FN bool contains(unsigned bit) const {
    // acquire: pairs with the release of set().
    return (leaf(bit / 64).load(simt::acquire) >> (bit % 64) & 1) != 0;
  }

  // The lowest set bit from `from` on, or none. `exact`: without the summaries, so that no bit is missed that is set all the time.
  [[nodiscard]] GPUHEAP_FN unsigned successor(unsigned from, bool exact = false) const {
    unsigned const first = from / 64;
    // Ends: `i` rises.
    GPUHEAP_NO_UNROLL
    for (unsigned i = exact ? first : next_leaf(first); i < num_leaves; i = exact ? i + 1 : next_leaf(i + 1)) {
      // relaxed: a guess; whoever takes the bit acquires.
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
      word bits = leaf(i).load(simt::relaxed);  // relaxed: as above
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

  // Takes a set bit and returns it, or none: nothing was seen set any more, anywhere. In the leaf of `from` the first from there on, and
  // around; where others take that first, any other of the leaf, and of an empty leaf's place any leaf. For as many threads as there are
  // bits: who claims in order follows others from bit to bit, of which each gets one, and here they part.
  [[nodiscard]] GPUHEAP_FN unsigned claim_any(unsigned from) const {
    unsigned spread = (simt::global_warp() * simt::warp_lanes + simt::lane_id() + 1) * 0x9e3779b1u;
    unsigned i = from / 64, nearest = from % 64;
    // relaxed: a guess.
    word bits = leaf(i).load(simt::relaxed);
    // release: what this thread did before; see take_mask(). Once, for all tries, and while the guess is on its way.
    simt::fence(simt::release);
    // Ends: a pass that goes on lost its bit to another thread, and has seen it clear. Lock-free.
    GPUHEAP_NO_UNROLL
    while (bits != 0 || (i = some_leaf(spread, bits)) != none) {
      unsigned const at = first_around(bits, nearest);
      word const mask = word{1} << at;
      // relay: after the fence; comes after the setter, as what is taken is gone on with.
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

  // The first of the highest n (> 0) neighbouring set bits below `end`, or none. Reads leaves only: it misses none that are set all the
  // time.
  [[nodiscard]] GPUHEAP_FN unsigned find_run(unsigned n, unsigned end) const {
    // Bits bit .. run_end - 1 were seen set.
    unsigned bit = end, run_end = end;
    // Ends: `bit` falls.
    GPUHEAP_NO_UNROLL
    while (bit != 0) {
      unsigned const left = (bit - 1) % 64 + 1;
      // The leaf's bits below `bit`, the highest of them on top. relaxed: a guess, as above.
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
  // Takes n neighbouring bits from `first` on: all, and returns none; or nothing, and returns the highest that was not set. While it takes
  // what it puts back, others miss bits.
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
  // Adds n neighbouring bits from `first` on.
  GPUHEAP_FN void set_run(unsigned first, unsigned n) const {
    // Ends: `bit` rises.
    GPUHEAP_NO_UNROLL
    for (unsigned bit = first; bit != first + n;) {
      unsigned const i = bit / 64;
      set_mask(i, bits_of_run(i, bit, first + n));
      bit = (i + 1) * 64 < first + n ? (i + 1) * 64 : first + n;
    }
  }
  // Takes the highest n (> 0) neighbouring set bits and returns the first, or none. Two threads at once may foil each other: callers that
  // must not miss a run take turns.
  [[nodiscard]] GPUHEAP_FN unsigned claim_run(unsigned n) const {
    unsigned end = num_leaves * 64;
    // Ends: `end` falls: a run that was lost lies below the bit that was missing, or ends there.
    GPUHEAP_NO_UNROLL
    while (true) {
      unsigned const first = find_run(n, end);
      if (first == none) return none;
      end = take_run(first, n);
      if (end == none) return first;
    }
  }

 private:
  // Deals the set bits of the words that lanes of `here` have, bit b of word i as i * 64 + b, to the lanes in their order. Returns this
  // lane's, or none. `given`: how many there are. Side by side, however few bits a word has: a launch may wait for it.
  GPUHEAP_FN static unsigned distribute(simt::lane_mask here, word bits, unsigned i, unsigned& given) {
    // Lone lanes come here often.
    if ((here & (here - 1)) == 0) {
      given = simt::popcount(bits);
      return bits != 0 ? i * 64 + simt::lowest_bit(bits) : none;
    }
    simt::uint64_t const dealt = distribute_to_several(here, bits, i);
    given = static_cast<unsigned>(dealt >> 32);
    return static_cast<unsigned>(dealt);
  }
  // This lane's, and from bit 32 on how many there are.
  GPUHEAP_COLD static simt::uint64_t distribute_to_several(simt::lane_mask here, word bits, unsigned i) {
    warp_group const g{here};
    unsigned given = 0;
    unsigned const rank = g.rank(), before = g.sum_before(simt::popcount(bits), given);
    // The rank of the lane that has this lane's bit: the last before which there are no more than this lane's rank.
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
  // A leaf that may have a bit for each lane of `here`, from that of bit `from` on and around; none for those that are left over. `from`
  // becomes the first bit of the leaf from which to go on.
  [[nodiscard]] GPUHEAP_FN unsigned leaf_for_each(simt::lane_mask here, unsigned& from) const {
    warp_group const g{here};
    unsigned const rank = g.rank(), lanes = g.size(), num = num_mids(), start = from / 64, first = start / 64;
    // The first word comes twice: the part from `start` on, and, last, the part before.
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
      // Where all was seen, but perhaps what lies before `from` in its leaf, that comes next.
      from = lanes <= num ? (first + lanes) % num * 64 * 64 : start * 64;
    }
    return mine;
  }
  GPUHEAP_FN void clear(unsigned bit) const {
    word const mask = word{1} << (bit % 64);
    // acq_rel: settle()'s next look comes after it.
    if ((leaf(bit / 64).fetch_and(~mask, simt::acq_rel) & ~mask) == 0) clear_stale(bit / 64);
  }

  // Out of line and on plain words: they are called from many places, none of which is in a hurry, and are most of a tree's code.
  GPUHEAP_COLD static void set_words(word* leaf, word* mid, word* top, unsigned i, word mask) {
    using ref = simt::global_ref<word>;
    ref{*leaf}.fetch_or(mask, simt::consume_release);
    // consume_release, both: each after the one before; see the head.
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
  // A leaf that has bits, as the 32 bits `spread` choose, and in `bits` those that were seen; none: every leaf that the summaries name was
  // seen empty. Of two that are looked at together the fuller one, so that threads meet where there is most.
  [[nodiscard]] GPUHEAP_FN unsigned some_leaf(unsigned spread, word& bits) const {
    unsigned const m0 = static_cast<unsigned>(simt::uint64_t{spread} * num_mids() >> 32);
    bool wrapped = false;
    // Ends: `m` goes up to the end, once from m0 and once, after the wrap, from 0 to m0. At first without a look at the top word.
    GPUHEAP_NO_UNROLL
    for (unsigned m = m0;;) {
      // relaxed, all: guesses.
      word marked = mid(m).load(simt::relaxed);
      // Ends: one pass for two bits, or one.
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
  // The first set bit of x (not 0) from bit r on, and around.
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
