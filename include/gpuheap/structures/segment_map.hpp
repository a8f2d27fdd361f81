// Which memory of a heap is free, in segments and in pages, and how contiguous parts of it are claimed.
//
// A segment is 2^lg_pages pages, at most 64. It is whole (nobody owns any of it), or broken up (owners have some of its pages), or owned
// entirely.
//   whole    a bit per segment, in a tree
//   pages    a word per segment: which pages of a broken one are free. 0 for all others
//   broken   a bit per segment whose pages word may be other than 0, in a tree
// A claim is one fetch_and on the word that holds all it wants (or one per leaf, for spans): who finds all wanted bits in the returned word
// owns them; who got only some puts them back. The free that completes a pages word makes the segment whole again, with one
// compare-exchange. Lock-free; every failed claim was another's success.
//
// Bits that were taken and are put back, a segment between broken and whole, and a summary being tidied are out of sight for a moment:
// all that happens inside a transit.
#pragma once

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/transit_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Starts of `n` consecutive free bits in `free`, 1 <= n <= 64.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t consecutive(simt::uint64_t free, unsigned n) {
  unsigned have = 1;
  // Ends: `have` at least doubles up to n, so within seven steps.
  GPUHEAP_NO_UNROLL
  while (have < n) {
    unsigned const step = have < n - have ? have : n - have;
    free &= free >> step;
    have += step;
  }
  return free;
}
static_assert(consecutive(0b1110, 3) == 0b10 && consecutive(0b1110, 2) == 0b110 && consecutive(~0ull, 64) == 1 &&
              consecutive(0b1011, 3) == 0);

// How many bits of `free` from bit `at` on are set, in a row.
[[nodiscard]] GPUHEAP_HD constexpr unsigned run_length(simt::uint64_t free, unsigned at) {
  simt::uint64_t const gaps = ~(free >> at);
  return gaps == 0 ? 64 : simt::lowest_bit(gaps);
}
static_assert(run_length(0b1110, 1) == 3 && run_length(~0ull, 0) == 64 && run_length(~0ull, 60) == 4 && run_length(0, 5) == 0);

// A transit that begins when something is first taken: a search that takes nothing is no move. Registers of one thread.
struct lazy_transit {
  transit_count moves;
  bool open = false;

  GPUHEAP_FN void begin() {
    if (!open) moves.begin();
    open = true;
  }
  GPUHEAP_FN void end() {
    if (open) moves.end();
    open = false;
  }
};

// Device, any thread.
struct segment_map {
  using word = bitmap_tree::word;
  static constexpr unsigned none = ~0u;

  // What was claimed: `length` segments from `first` on, or `length` pages.
  struct claim {
    unsigned first = none;  // none if nothing was free
    unsigned length = 0;
    bool of_segments = false;
    bool untidy = false;  // it took the last of its leaf
  };

  bitmap_tree whole, broken;
  word* pages = nullptr;
  unsigned num_segments = 0;
  unsigned lg_pages = 6;
  unsigned* num_free = nullptr;    // free pages now; a hint for policies, exact when nothing is under way
  unsigned* least_free = nullptr;  // the lowest it ever was

  [[nodiscard]] GPUHEAP_HD unsigned pages_per_segment() const { return 1u << lg_pages; }
  [[nodiscard]] GPUHEAP_FN unsigned free_hint() const { return simt::global_ref<unsigned>{*num_free}.load(simt::relaxed); }
  // Whether anything may be free. False is exact in the sense of bitmap_tree::maybe_any.
  [[nodiscard]] GPUHEAP_FN bool maybe_any() const { return whole.maybe_any() || broken.maybe_any(); }

  // ---- claiming. `transit` is open afterwards if anything was taken: what was claimed is in nobody's sight yet. `spread` 0: from the
  // lowest place on, so that addresses stay close together. Else different values begin at different places, so that many claimers at once
  // do not meet in one word. Three calls, so that the caller can keep each out of line: segments, then a few broken ones' pages or a
  // segment to break, then any broken one's.

  // Whole segments of about `pages`, at most `most` <= 64 of them; a remainder is rounded up if that wastes less than an eighth. None if
  // that is less than one, or if there is none.
  [[nodiscard]] GPUHEAP_FN claim claim_segments(unsigned pages_wanted, unsigned most, unsigned spread, lazy_transit& transit) const {
    unsigned const n = (pages_wanted + (pages_wanted >> 3)) >> lg_pages;
    if (n == 0 || most == 0) return {};
    return claim_row(n < most ? n : most, spread, transit);
  }

  // Counts what was claimed, and tidies up. Once for each claim, while its transit is open.
  GPUHEAP_FN void settle(claim got) const {
    count_claimed(got.of_segments ? got.length << lg_pages : got.length);
    if (got.untidy) whole.tidy((got.of_segments ? got.first : got.first >> lg_pages) / 64);
    // relaxed: who finds none later does the same.
    if (!got.of_segments && pages_of(got.first >> lg_pages).load(simt::relaxed) == 0) leave_broken(got.first >> lg_pages);
  }

  // Up to n contiguous pages, at least `least`, of one of the first `looks` broken segments.
  [[nodiscard]] GPUHEAP_COLD claim claim_pages(unsigned n, unsigned least, unsigned looks, unsigned spread, lazy_transit& transit) const {
    claim found{};
    unsigned const start = spread == 0 ? 0 : (spread >> 4) % broken.num_leaves;
    broken.for_each_leaf(start, [&](unsigned i) {
      word bits = broken.leaf(i).load(simt::relaxed);
      if (bits == 0) {
        transit.begin();
        broken.tidy(i);
      }
      unsigned const turn = spread % 64;
      // Begins at another segment for each spread.
      if (turn != 0) bits = bits >> turn | bits << (64 - turn);
      // Ends: one pass per bit.
      GPUHEAP_NO_UNROLL
      for (; bits != 0; bits &= bits - 1) {
        if (looks-- == 0) return true;
        found = claim_pages_of(i * 64 + ((simt::lowest_bit(bits) + turn) & 63), n, least, transit);
        if (found.first != none) return true;
      }
      return false;
    });
    return found;
  }

  // Breaks a whole segment up and claims its first n pages.
  [[nodiscard]] GPUHEAP_FN claim break_segment(unsigned n, unsigned spread, lazy_transit& transit) const {
    claim const got = claim_row(1, spread, transit);
    if (got.first == none) return {};
    if (n != pages_per_segment()) {
      // handed_over: passes on what the claim acquired.
      pages_of(got.first).fetch_or(all_pages() & ~simt::low_bits(n), simt::handed_over);
      broken.set(got.first);
    }
    return {got.first << lg_pages, n, false, got.untidy};
  }

  // Claims `n` contiguous segments whose first one s has (s + phase) % alignment == 0 (alignment a power of two). Highest addresses first,
  // away from the runs. Returns the first segment or none. Begins and ends a transit in `moves` around each attempt to take bits; looking
  // for them is none.
  [[nodiscard]] GPUHEAP_FN unsigned claim_span(unsigned n, unsigned alignment, unsigned phase, transit_count moves) const {
    if (n == 0 || n > num_segments) return none;
    unsigned length = 0;  // free segments in a row from the lowest one looked at upward
    // Ends: `i` falls to 0. After a lost race the search goes on below: the claimer that won was in a transit, which a caller that wants
    // certainty sees.
    GPUHEAP_NO_UNROLL
    for (unsigned i = whole.num_leaves; i-- != 0;) {
      // relaxed: only a guess at what take_span will find.
      word const free = whole.leaf(i).load(simt::relaxed);
      unsigned const bits = num_segments - i * 64 < 64 ? num_segments - i * 64 : 64;
      unsigned top = bits;  // bits below it are still to be looked at
      // Ends: `top` falls with every pass.
      GPUHEAP_NO_UNROLL
      while (top != 0) {
        // The free bits in a row directly below `top`.
        word const gaps = ~free & simt::low_bits(top);
        unsigned const low = gaps == 0 ? 0 : simt::highest_bit(gaps) + 1;
        length += top - low;
        if (length >= n) {
          // The highest aligned start within this row.
          unsigned const highest = i * 64 + low + length - n;
          unsigned const s = highest - ((highest + phase) & (alignment - 1));
          if (s + 1 > i * 64 + low && highest >= ((highest + phase) & (alignment - 1))) {
            moves.begin();
            bool const taken = take_span(s, n);
            moves.end();
            if (taken) return s;
            length = 0;
          }
        }
        if (gaps == 0) break;  // the row goes on in the leaf below
        length = 0;
        // Below the gap.
        word const below = free & simt::low_bits(low);
        top = below == 0 ? 0 : simt::highest_bit(below) + 1;
      }
    }
    return none;
  }

  // Claims segments first..first+n-1, all or none. Begins and ends a transit around the attempt, if a look says that it may succeed.
  [[nodiscard]] GPUHEAP_FN bool claim_at(unsigned first, unsigned n, transit_count moves) const {
    if (first > num_segments || n > num_segments - first) return false;
    // Ends: one pass per leaf of the span. relaxed: only a guess at what take_span will find.
    GPUHEAP_NO_UNROLL
    for (unsigned seen = 0; seen != n;) {
      word const mask = span_mask(first + seen, n - seen);
      if ((whole.leaf((first + seen) / 64).load(simt::relaxed) & mask) != mask) return false;
      seen += simt::popcount(mask);
    }
    moves.begin();
    bool const taken = take_span(first, n);
    moves.end();
    return taken;
  }

  // Gives segments first..first+n-1 back. They must be claimed, and what lies about them ready for the next owner: release order is this
  // call's.
  GPUHEAP_FN void release_segments(unsigned first, unsigned n) const {
    count_free(n << lg_pages);
    put_back(first, n);
  }
  // The same in steps, for callers that keep each out of line: count_free() with the pages, then this until none is left. Returns how many
  // of the `n` segments from `first` on are free now: those of one leaf.
  GPUHEAP_FN unsigned put_leaf(unsigned first, unsigned n) const {
    word const mask = span_mask(first, n);
    whole.set_mask(first / 64, mask);
    return simt::popcount(mask);
  }
  // Before the pages are there, so that no claim of theirs is counted first.
  GPUHEAP_FN void count_free(unsigned num_pages) const {
    // relaxed: a hint.
    simt::global_ref<unsigned>{*num_free}.fetch_add(num_pages, simt::relaxed);
  }
  // Gives n pages of one segment back, from page `first` of the heap on. Likewise. Makes the segment whole if it was the last.
  GPUHEAP_FN void release_pages(unsigned first, unsigned n, transit_count moves) const {
    bool const all = put_pages(first, n);
    make_broken(first >> lg_pages);
    if (all) rejoin(first >> lg_pages, moves);
  }
  // The same in three calls: this, make_broken(), and if this was true, rejoin(): all of the segment is free now.
  GPUHEAP_FN bool put_pages(unsigned first, unsigned n) const {
    count_free(n);
    return put_mask(first >> lg_pages, simt::low_bits(n) << (first & (pages_per_segment() - 1)));
  }
  GPUHEAP_FN void rejoin(unsigned s, transit_count moves) const {
    moves.begin();
    rejoin(s);
    moves.end();
  }
  // The steps of rejoin(), for callers that keep each out of line, in a transit: the first; if it is true, the others.
  //
  // All pages of the segment, as of one that shall be whole.
  GPUHEAP_FN bool take_all_pages(unsigned s) const {
    word expected = all_pages();
    // handed_over: as in put_mask(). If it fails, somebody claimed pages: whoever gives those back comes here again.
    return pages_of(s).compare_exchange(expected, 0, simt::handed_over, simt::relaxed);
  }
  GPUHEAP_FN void make_whole(unsigned s) const { whole.set(s); }
  // No longer among the broken ones, unless a free comes in between: if there are pages afterwards, make_broken() is due.
  GPUHEAP_FN bool drop_broken(unsigned s) const { return broken.take(s); }
  [[nodiscard]] GPUHEAP_FN bool has_pages(unsigned s) const { return pages_of(s).load(simt::acquire) != 0; }
  GPUHEAP_FN void make_broken(unsigned s) const { broken.set(s); }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> pages_of(unsigned s) const { return simt::global_ref<word>{pages[s]}; }

 private:
  [[nodiscard]] GPUHEAP_HD word all_pages() const { return simt::low_bits(pages_per_segment()); }
  [[nodiscard]] GPUHEAP_FN static word span_mask(unsigned first, unsigned n) {
    unsigned const in_leaf = 64 - first % 64;
    return simt::low_bits(n < in_leaf ? n : in_leaf) << (first % 64);
  }
  GPUHEAP_FN void count_claimed(unsigned n) const {
    // relaxed: hints; the claim itself is ordered by its word.
    unsigned const left = simt::global_ref<unsigned>{*num_free}.fetch_sub(n, simt::relaxed) - n;
    simt::global_ref<unsigned>{*least_free}.fetch_min(left, simt::relaxed);
  }

  // ---- segments
  GPUHEAP_FN void put_back(unsigned first, unsigned n) const {
    // Ends: one pass per leaf of the span.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      unsigned const done = put_leaf(first, n);
      first += done;
      n -= done;
    }
  }
  // All of the span or nothing. Leaves that it empties keep their summary bits: a look of somebody's costs less than tidying many leaves.
  GPUHEAP_FN bool take_span(unsigned first, unsigned n) const {
    unsigned taken = 0;
    // Ends: one pass per leaf of the span.
    GPUHEAP_NO_UNROLL
    while (taken != n) {
      unsigned const at = first + taken;
      word const mask = span_mask(at, n - taken);
      // handed_over: as in bitmap_tree::take_mask.
      word const got = whole.leaf(at / 64).fetch_and(~mask, simt::handed_over) & mask;
      if (got != mask) {
        if (got != 0) whole.set_mask(at / 64, got);
        put_back(first, taken);
        return false;
      }
      taken += simt::popcount(mask);
    }
    count_claimed(n << lg_pages);
    return true;
  }
  // Up to n segments, of one leaf.
  [[nodiscard]] GPUHEAP_FN claim claim_row(unsigned n, unsigned spread, lazy_transit& transit) const {
    claim got{};
    unsigned const start = spread == 0 ? 0 : spread % whole.num_leaves;
    // Ends: after two rounds at most. The first one takes only rows of at least a quarter of n.
    GPUHEAP_NO_UNROLL
    for (unsigned least = n / 4; got.first == none; least = 0) {
      whole.for_each_leaf(start, [&](unsigned i) {
        got = claim_in_leaf(i, n, least != 0 ? least : 1, spread, transit);
        return got.first != none;
      });
      if (least == 0) break;
    }
    return got;
  }
  [[nodiscard]] GPUHEAP_FN claim claim_in_leaf(unsigned i, unsigned n, unsigned least, unsigned spread, lazy_transit& transit) const {
    // relaxed: only a guess at what take_mask will find.
    word free = whole.leaf(i).load(simt::relaxed);
    if (free == 0) {
      transit.begin();
      whole.tidy(i);
      return {};
    }
    unsigned row = n;
    // Ends: every pass makes `row` smaller, or has lost at least one bit of `free` to another claimer.
    GPUHEAP_NO_UNROLL
    while (row >= least) {
      word const starts = consecutive(free, row);
      if (starts == 0) {
        row /= 2;
        if (row == 0) break;
        continue;
      }
      unsigned const at = pick(starts, row < n ? 0 : spread);
      unsigned length = run_length(free, at);
      if (length > n) length = n;
      word const mask = simt::low_bits(length) << at;
      transit.begin();
      bool emptied = false;
      word const got = whole.take_untidily(i, mask, emptied);
      if (got == mask) return {i * 64 + at, length, true, emptied};
      if (emptied) whole.tidy(i);
      if (got != 0) whole.set_mask(i, got);
      free &= ~mask | got;
    }
    return {};
  }
  // The lowest of `starts`, or one of the first eight by `spread`.
  [[nodiscard]] GPUHEAP_FN static unsigned pick(word starts, unsigned spread) {
    // Ends: seven steps at most.
    GPUHEAP_NO_UNROLL
    for (unsigned skip = spread >> 8 & 7; skip != 0 && (starts & (starts - 1)) != 0; --skip) starts &= starts - 1;
    return simt::lowest_bit(starts);
  }

  // ---- pages
  // Makes pages of a segment free: make_broken() is due. True if all of it is now: rejoin() is due, in a transit.
  GPUHEAP_FN bool put_mask(unsigned s, word mask) const {
    // handed_over: releases the pages to the next claimer; acquires the others' if the segment becomes whole.
    return (pages_of(s).fetch_or(mask, simt::handed_over) | mask) == all_pages();
  }
  // In a transit, both.
  GPUHEAP_FN void leave_broken(unsigned s) const {
    if (drop_broken(s) && has_pages(s)) make_broken(s);
  }
  GPUHEAP_FN void rejoin(unsigned s) const {
    if (!take_all_pages(s)) return;
    make_whole(s);
    leave_broken(s);
  }
  [[nodiscard]] GPUHEAP_FN claim claim_pages_of(unsigned s, unsigned n, unsigned least, lazy_transit& transit) const {
    // relaxed: only a guess at what the fetch_and will find.
    word free = pages_of(s).load(simt::relaxed);
    if (free == 0) {
      // Nothing left: no longer among the broken ones, unless a free comes in between.
      transit.begin();
      leave_broken(s);
      return {};
    }
    // Ends: every pass makes n smaller, down to `least`, or has lost at least one bit of `free` to another claimer.
    GPUHEAP_NO_UNROLL
    while (n >= least) {
      word const starts = consecutive(free, n);
      if (starts == 0) {
        if (n == least) break;
        n = n / 2 > least ? n / 2 : least;
        continue;
      }
      unsigned const at = simt::lowest_bit(starts);
      word const mask = simt::low_bits(n) << at;
      transit.begin();
      // handed_over: acquires what the last owner released; releases this thread's begin() to who finds the pages gone.
      word const got = pages_of(s).fetch_and(~mask, simt::handed_over) & mask;
      if (got == mask) return {(s << lg_pages) + at, n, false};
      if (got != 0) {
        bool const all = put_mask(s, got);
        make_broken(s);
        if (all) rejoin(s);
      }
      free &= ~mask | got;
    }
    return {};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
