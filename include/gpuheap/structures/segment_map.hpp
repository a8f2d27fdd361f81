// Records the free memory of a heap, in segments and pages, and claims contiguous parts of it.
//
// A segment has 2^lg_pages pages, at most 64. It is whole (no page has an owner), or broken (pages have owners of their own), or one owner
// has all of it.
//   whole    a bit for each segment, in a tree
//   pages    a word for each segment: which pages of a broken one are free; 0 for others
//   broken   a bit for each segment whose pages word may not be 0, in a tree
// A claim is one fetch_and on the word that has all that it wants. If the returned word had all those bits, the thread owns them; if it had
// some, the thread puts them back. The release that completes a pages word makes the segment whole again, by one compare-exchange.
// Lock-free: a claim fails only because another one succeeded.
//
// An extent is any number of contiguous pages. It owns each segment that it covers entirely as a whole one, and pages of a broken one at
// either end. It takes one fetch_and for each leaf and end, and gets all or nothing.
//
// Bits that are put back, a segment between broken and whole, and a summary bit that is cleared cannot be found for a moment. All that
// happens during a relocation.
#pragma once

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Starts of `n` consecutive free bits in `free`, 1 <= n <= 64.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t consecutive(simt::uint64_t free, unsigned n) {
  unsigned have = 1;
  // Ends: `have` at least doubles up to n, so after seven passes at most.
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

// How many consecutive bits of `free` are set from bit `at` on.
[[nodiscard]] GPUHEAP_HD constexpr unsigned run_length(simt::uint64_t free, unsigned at) {
  simt::uint64_t const gaps = ~(free >> at);
  return gaps == 0 ? 64 : simt::lowest_bit(gaps);
}
static_assert(run_length(0b1110, 1) == 3 && run_length(~0ull, 0) == 64 && run_length(~0ull, 60) == 4 && run_length(0, 5) == 0);

// A relocation that begins when something is first taken: a search that takes nothing relocates nothing. In registers of one thread.
struct lazy_relocation {
  relocation_count relocations;
  bool open = false;

  GPUHEAP_FN void begin() {
    if (!open) relocations.begin();
    open = true;
  }
  GPUHEAP_FN void end() {
    if (open) relocations.end();
    open = false;
  }
};

// A view of the words, which lie elsewhere. Device, any thread.
struct segment_map {
  using word = bitmap_tree::word;
  static constexpr unsigned none = ~0u;

  // The result of a claim: `length` segments from `first` on, or `length` pages.
  struct claim {
    unsigned first = none;  // none if nothing was free
    unsigned length = 0;
    bool of_segments = false;
    bool stale = false;  // it emptied its leaf, whose summary bit is due to be cleared
  };

  bitmap_tree whole, broken;
  word* pages = nullptr;
  unsigned num_segments = 0;
  unsigned lg_pages = 6;
  unsigned* num_free = nullptr;     // free pages: a hint, exact at rest
  unsigned* least_free = nullptr;   // the fewest that were ever free
  simt::uint32_t* marks = nullptr;  // none, or a word for each segment: broken_up while it is broken, 0 while it is whole
  unsigned mark_stride = 1;
  static constexpr simt::uint32_t broken_up = 1;

  [[nodiscard]] GPUHEAP_HD unsigned pages_per_segment() const { return 1u << lg_pages; }
  [[nodiscard]] GPUHEAP_FN unsigned free_hint() const { return simt::global_ref<unsigned>{*num_free}.load(simt::relaxed); }
  // Whether anything may be free. If false, nothing was, as for bitmap_tree::maybe_any.
  [[nodiscard]] GPUHEAP_FN bool maybe_any() const { return whole.maybe_any() || broken.maybe_any(); }

  // ---- claims. If anything was taken, `relocation` is open afterwards: no thread can find what was claimed. With `spread` 0 a claim takes
  // the lowest place, so that addresses stay close together. Other values begin at different places, so that many claims at once do not
  // meet in one word. The caller keeps each of the three out of line.

  // Whole segments of about so many pages, at most `most` <= 64. A remainder becomes another segment if that wastes less than an eighth.
  // None if that is less than a segment, or if there is none.
  [[nodiscard]] GPUHEAP_FN claim claim_segments(unsigned pages_wanted, unsigned most, unsigned spread, lazy_relocation& relocation) const {
    unsigned const n = (pages_wanted + (pages_wanted >> 3)) >> lg_pages;
    if (n == 0 || most == 0) return {};
    return claim_row(n < most ? n : most, spread, relocation);
  }

  // Counts what was claimed, and clears stale summary bits. Once for each claim, while its relocation is open.
  GPUHEAP_FN void finish_claim(claim got) const {
    count_claimed(got.of_segments ? got.length << lg_pages : got.length);
    if (got.stale) whole.clear_stale((got.of_segments ? got.first : got.first >> lg_pages) / 64);
    // relaxed: a guess. A thread that finds no page later does the same.
    if (!got.of_segments && pages_of(got.first >> lg_pages).load(simt::relaxed) == 0) leave_broken(got.first >> lg_pages);
  }

  // Up to n contiguous pages, and at least `least`, of one of the first `segments_left` broken segments.
  [[nodiscard]] GPUHEAP_FN claim claim_pages(unsigned n, unsigned least, unsigned segments_left, unsigned spread,
                                             lazy_relocation& relocation) const {
    claim found{};
    broken.for_each_leaf(spread == 0 ? 0 : (spread >> 4) % broken.num_leaves, [&](unsigned i) {
      segments_left = claim_pages_in_leaf(i, n, least, segments_left, spread, relocation, found);
      return segments_left == 0 || found.first != none;
    });
    return found;
  }
  // Breaks a whole segment and claims its first n pages.
  [[nodiscard]] GPUHEAP_FN claim break_segment(unsigned n, unsigned spread, lazy_relocation& relocation) const {
    claim const got = claim_row(1, spread, relocation);
    if (got.first == none) return {};
    break_up(got.first, all_pages() & ~simt::low_bits(n));
    return {got.first << lg_pages, n, false, got.stale};
  }

  // Claims n contiguous pages, from a page f with (f + phase) % alignment == 0 on; alignment is a power of two. Takes the highest
  // addresses, away from the spans. Returns the first page or none. Each attempt to take bits is a relocation of its own; looking for them
  // is none.
  [[nodiscard]] GPUHEAP_COLD unsigned claim_extent(unsigned n, unsigned alignment, unsigned phase, relocation_count relocations) const {
    if (n == 0 || n > num_segments << lg_pages) return none;
    extent_search search{n, alignment, phase, relocations, whole.num_leaves};
    // Ends: `next_leaf` falls to 0. Each of at most `most_losses` lost races sets it back once.
    GPUHEAP_NO_UNROLL
    while (search.next_leaf != 0) {
      unsigned const got = look_in_leaf(search, --search.next_leaf);
      if (got != none) return got;
    }
    return none;
  }

  // Claims the pages first..first+n-1, all or none. The attempt is a relocation. If a look says that it cannot succeed, there is none.
  [[nodiscard]] GPUHEAP_FN bool claim_at(unsigned first, unsigned n, relocation_count relocations) const {
    if (first > num_segments << lg_pages || n > (num_segments << lg_pages) - first) return false;
    // Ends: `seen` rises by the extent's part of a segment. relaxed: a guess at what take_extent will find.
    GPUHEAP_NO_UNROLL
    for (unsigned seen = 0; seen != n;) {
      part const here = part_at(first + seen, n - seen);
      bool const is_whole = (whole.leaf(here.segment / 64).load(simt::relaxed) >> (here.segment % 64) & 1) != 0;
      if (!is_whole && (here.mask == all_pages() || (pages_of(here.segment).load(simt::relaxed) & here.mask) != here.mask)) return false;
      seen += here.pages;
    }
    relocations.begin();
    bool const taken = take_extent(first, n, relocations);
    relocations.end();
    return taken;
  }

  // Takes pages of a broken segment, or of a whole one that it breaks: all of `mask` or none. During a relocation.
  GPUHEAP_COLD bool take_part(unsigned s, word mask) const {
    // consume_release, both: as in claim_pages_of().
    word const before = pages_of(s).fetch_and(~mask, simt::consume_release);
    if ((before & mask) == mask) {
      if ((before & ~mask) == 0) leave_broken(s);
      return true;
    }
    if ((before & mask) != 0) {
      bool const all = put_mask(s, before & mask);
      make_broken(s);
      if (all) rejoin(s);
      return false;
    }
    word const bit = word{1} << (s % 64);
    if ((whole.leaf(s / 64).fetch_and(~bit, simt::consume_release) & bit) == 0) return false;
    break_up(s, all_pages() & ~mask);
    return true;
  }

  // Releases the pages first..first+n-1 of an extent. Their metadata is ready for the next owner, and is released with them.
  GPUHEAP_FN void release_extent(unsigned first, unsigned n, relocation_count relocations) const {
    count_free(n);
    put_extent(first, n, relocations);
  }
  // Makes a segment, of which an extent owns all pages one by one, one that it owns as a whole. The caller has set its mark.
  GPUHEAP_FN void own_whole(unsigned s, relocation_count relocations) const {
    relocations.begin();
    leave_broken(s);
    relocations.end();
  }
  // Breaks a segment that an extent owns as a whole, with the pages `mask` free. During a relocation if other threads may ask for them.
  GPUHEAP_COLD void break_up(unsigned s, word mask) const {
    // relaxed: ordered by the release below, or by the owner's release of its pages.
    if (marks != nullptr) mark_of(s).store(broken_up, simt::relaxed);
    if (mask == 0) return;
    // consume_release: passes on what the owner acquired.
    pages_of(s).fetch_or(mask, simt::consume_release);
    broken.set(s);
  }

  // Releases whole segments, in steps for callers that keep each out of line: count_free() once, then this until none is left. Returns how
  // many of the n segments from `first` on it released: those of one leaf.
  GPUHEAP_FN unsigned put_leaf(unsigned first, unsigned n) const {
    word const mask = row_mask(first, n);
    whole.set_mask(first / 64, mask);
    return simt::popcount(mask);
  }
  // Puts back what a claim of leaf i got, if that was less than it wanted.
  GPUHEAP_COLD void put_back(unsigned i, word got, bool emptied) const {
    if (emptied) whole.clear_stale(i);
    if (got != 0) whole.set_mask(i, got);
  }
  // Counts pages as free. Before they are: so no claim of them is counted first.
  GPUHEAP_FN void count_free(unsigned num_pages) const {
    // relaxed: a hint.
    simt::global_ref<unsigned>{*num_free}.fetch_add(num_pages, simt::relaxed);
  }
  // Releases n pages of one segment, from page `first` of the heap on. Makes the segment whole if all of its pages are free then.
  GPUHEAP_FN void release_pages(unsigned first, unsigned n, relocation_count relocations) const {
    bool const all = put_pages(first, n);
    make_broken(first >> lg_pages);
    if (all) rejoin(first >> lg_pages, relocations);
  }
  // The same in three calls: this one; make_broken(); and rejoin() if this one returned true, as all of the segment is free.
  GPUHEAP_FN bool put_pages(unsigned first, unsigned n) const {
    count_free(n);
    return put_mask(first >> lg_pages, simt::low_bits(n) << (first & (pages_per_segment() - 1)));
  }
  GPUHEAP_FN void rejoin(unsigned s, relocation_count relocations) const {
    relocations.begin();
    rejoin(s);
    relocations.end();
  }
  // The same during a relocation.
  GPUHEAP_COLD void rejoin(unsigned s) const {
    if (!take_all_pages(s)) return;
    make_whole(s);
    leave_broken(s);
  }
  // The steps of rejoin(), for callers that keep each out of line. During a relocation: this one; and if it is true, the others.
  //
  // Takes all pages of the segment, which is to become whole.
  GPUHEAP_FN bool take_all_pages(unsigned s) const {
    word expected = all_pages();
    // consume_release: as in put_mask(). If it fails, another thread claimed pages. The thread that releases those comes here again.
    return pages_of(s).compare_exchange(expected, 0, simt::consume_release, simt::relaxed);
  }
  GPUHEAP_FN void make_whole(unsigned s) const {
    // relaxed: ordered by the release below.
    if (marks != nullptr) mark_of(s).store(0, simt::relaxed);
    whole.set(s);
  }
  // Takes the segment from the broken ones. A release may come in between: if there are pages afterwards, make_broken() is due.
  GPUHEAP_FN bool erase_broken(unsigned s) const { return broken.take(s); }
  [[nodiscard]] GPUHEAP_FN bool has_pages(unsigned s) const { return pages_of(s).load(simt::acquire) != 0; }
  GPUHEAP_FN void make_broken(unsigned s) const { broken.set(s); }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> pages_of(unsigned s) const { return simt::global_ref<word>{pages[s]}; }

  // The part of an extent of n pages, from `first` on, that lies in its first segment.
  struct part {
    unsigned segment, pages;
    word mask;
  };
  [[nodiscard]] GPUHEAP_HD part part_at(unsigned first, unsigned n) const {
    unsigned const in = first & (pages_per_segment() - 1), left = pages_per_segment() - in, pages = n < left ? n : left;
    return {first >> lg_pages, pages, simt::low_bits(pages) << in};
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<simt::uint32_t> mark_of(unsigned s) const {
    return simt::global_ref<simt::uint32_t>{marks[simt::size_t{s} * mark_stride]};
  }
  [[nodiscard]] GPUHEAP_HD word all_pages() const { return simt::low_bits(pages_per_segment()); }
  [[nodiscard]] GPUHEAP_FN static word row_mask(unsigned first, unsigned n) {
    unsigned const in_leaf = 64 - first % 64;
    return simt::low_bits(n < in_leaf ? n : in_leaf) << (first % 64);
  }
  GPUHEAP_FN void count_claimed(unsigned n) const {
    // relaxed: hints. The claim itself is ordered by its word.
    unsigned const left = simt::global_ref<unsigned>{*num_free}.fetch_sub(n, simt::relaxed) - n;
    simt::global_ref<unsigned>{*least_free}.fetch_min(left, simt::relaxed);
  }

  // ---- extents
  struct extent_search {
    unsigned n, alignment, phase;
    relocation_count relocations;
    unsigned next_leaf;   // leaves below it were not looked at yet
    unsigned length = 0;  // consecutive free pages, from the lowest page that was looked at up
    bool lost = false;    // another claim was faster
    unsigned losses = 0;
    // A search that has lost so often goes on below: otherwise all that meet here would look again after each success.
    static constexpr unsigned most_losses = 4;
  };
  // Looks for the extent in rows that end in leaf i, from its highest segment down.
  [[nodiscard]] GPUHEAP_COLD unsigned look_in_leaf(extent_search& search, unsigned i) const {
    // relaxed, all: guesses at what take_extent will find.
    word const all = whole.leaf(i).load(simt::relaxed);
    unsigned above = 64;  // the lowest segment that was looked at
    // Ends: `some` loses its highest bits.
    GPUHEAP_NO_UNROLL
    for (word some = broken.leaf(i).load(simt::relaxed) | all; some != 0 && !search.lost; some &= simt::low_bits(above)) {
      unsigned const top = simt::highest_bit(some);
      if (top + 1 != above) search.length = 0;
      above = top;
      unsigned got = none;
      if ((all >> top & 1) != 0) {
        // Consecutive whole segments.
        word const gaps = ~all & simt::low_bits(top);
        above = gaps == 0 ? 0 : simt::highest_bit(gaps) + 1;
        got = try_row(search, (i * 64 + above) << lg_pages, (top + 1 - above) << lg_pages);
      } else {
        got = look_in_segment(search, i * 64 + top);
      }
      if (got != none) return got;
    }
    if (above != 0 || search.lost) search.length = 0;
    search.lost = false;
    return none;
  }
  // The same in the pages of a broken segment.
  [[nodiscard]] GPUHEAP_COLD unsigned look_in_segment(extent_search& search, unsigned s) const {
    word rest = pages_of(s).load(simt::relaxed);
    unsigned next = pages_per_segment();  // pages below it were not looked at yet
    // Ends: `rest` loses its highest bits.
    GPUHEAP_NO_UNROLL
    for (;;) {
      unsigned const end = rest == 0 ? 0 : simt::highest_bit(rest) + 1;
      if (end != next) search.length = 0;
      if (end == 0) return none;
      word const gaps = ~rest & simt::low_bits(end);
      next = gaps == 0 ? 0 : simt::highest_bit(gaps) + 1;
      unsigned const got = try_row(search, (s << lg_pages) + next, end - next);
      if (got != none || search.lost) return got;
      rest &= simt::low_bits(next);
    }
  }
  // Tries to claim the extent in a row of free pages that lies directly below the `length` ones, if that is not 0. Returns what was
  // claimed. After a lost race the search looks again in the leaf in which the row ends, as what the winner left joins what lies below;
  // after several it goes on below the row. The winner's claim is a relocation, so a caller that wants certainty sees that this search
  // missed something.
  [[nodiscard]] GPUHEAP_COLD unsigned try_row(extent_search& search, unsigned first, unsigned row) const {
    search.length += row;
    if (search.length < search.n) return none;
    // The highest aligned start in this row.
    unsigned const highest = first + search.length - search.n, over = (highest + search.phase) & (search.alignment - 1);
    if (highest < first + over) return none;
    search.relocations.begin();
    bool const taken = take_extent(highest - over, search.n, search.relocations);
    search.relocations.end();
    if (taken) return highest - over;
    search.lost = ++search.losses <= extent_search::most_losses;
    if (search.lost) search.next_leaf = ((first + search.length - 1) >> lg_pages) / 64 + 1;
    search.length = 0;
    return none;
  }

  // Out of line, as its callers are large.
  [[nodiscard]] GPUHEAP_COLD static word starts_of(word free, unsigned n) { return consecutive(free, n); }

  // ---- segments
  // Takes all of the extent or nothing. Leaves that it empties keep their summary bits: an occasional look costs less than clearing many.
  // During a relocation.
  GPUHEAP_COLD bool take_extent(unsigned first, unsigned n, relocation_count relocations) const {
    unsigned taken = 0;
    // Ends: `taken` rises: one pass for each leaf of the extent, and one for each end.
    GPUHEAP_NO_UNROLL
    while (taken != n) {
      part const here = part_at(first + taken, n - taken);
      unsigned got = 0;
      if (here.mask == all_pages()) {
        word const mask = row_mask(here.segment, (n - taken) >> lg_pages);
        // consume_release: as in bitmap_tree::take_mask.
        word const had = whole.leaf(here.segment / 64).fetch_and(~mask, simt::consume_release) & mask;
        if (had == mask) got = simt::popcount(mask) << lg_pages;
        if (had != mask && had != 0) whole.set_mask(here.segment / 64, had);
      } else if (take_part(here.segment, here.mask)) {
        got = here.pages;
      }
      if (got == 0) {
        put_extent(first, taken, relocations);
        return false;
      }
      taken += got;
    }
    count_claimed(n);
    return true;
  }
  // Makes the pages of an extent free: its ends by put_mask(), the whole segments between by their leaves.
  GPUHEAP_COLD void put_extent(unsigned first, unsigned n, relocation_count relocations) const {
    // Ends: `n` falls: one pass for each leaf of the extent, and one for each end.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      part const here = part_at(first, n);
      unsigned done = here.pages;
      if (here.mask == all_pages()) {
        done = put_leaf(here.segment, n >> lg_pages) << lg_pages;
      } else {
        bool const all = put_mask(here.segment, here.mask);
        make_broken(here.segment);
        if (all) rejoin(here.segment, relocations);
      }
      first += done;
      n -= done;
    }
  }
  // Claims up to n segments of one leaf.
  [[nodiscard]] GPUHEAP_COLD claim claim_row(unsigned n, unsigned spread, lazy_relocation& relocation) const {
    claim got{};
    unsigned const start = spread == 0 ? 0 : spread % whole.num_leaves;
    // Ends: after two rounds at most. The first takes only rows of at least a quarter of n.
    GPUHEAP_NO_UNROLL
    for (unsigned least = n / 4; got.first == none; least = 0) {
      whole.for_each_leaf(start, [&](unsigned i) {
        got = claim_in_leaf(i, n, least != 0 ? least : 1, spread, relocation);
        return got.first != none;
      });
      if (least == 0) break;
    }
    return got;
  }
  [[nodiscard]] GPUHEAP_COLD claim claim_in_leaf(unsigned i, unsigned n, unsigned least, unsigned spread,
                                                 lazy_relocation& relocation) const {
    // relaxed: a guess at what the take will find.
    word free = whole.leaf(i).load(simt::relaxed);
    if (free == 0) {
      relocation.begin();
      whole.clear_stale(i);
      return {};
    }
    // The lowest row, or else the longest.
    unsigned row = spread == 0 ? least : n;
    // Ends: a pass makes `row` smaller, or has lost at least one bit of `free` to another claim.
    GPUHEAP_NO_UNROLL
    while (row >= least) {
      word const starts = starts_of(free, row);
      if (starts == 0) {
        row /= 2;
        if (row == 0) break;
        continue;
      }
      unsigned const at = pick(starts, row < n ? 0 : spread);
      unsigned length = run_length(free, at);
      if (length > n) length = n;
      word const mask = simt::low_bits(length) << at;
      relocation.begin();
      bool emptied = false;
      word const got = whole.take_leaf_only(i, mask, emptied);
      if (got == mask) return {i * 64 + at, length, true, emptied};
      put_back(i, got, emptied);
      free &= ~mask | got;
    }
    return {};
  }
  // Picks the lowest of `starts`, or one of the first eight by `spread`.
  [[nodiscard]] GPUHEAP_FN static unsigned pick(word starts, unsigned spread) {
    GPUHEAP_NO_UNROLL
    for (unsigned skip = spread >> 8 & 7; skip != 0 && (starts & (starts - 1)) != 0; --skip) starts &= starts - 1;
    return simt::lowest_bit(starts);
  }

  // ---- pages
  // Makes pages of a segment free: make_broken() is due. True: all of the segment is free, and rejoin() is due, during a relocation.
  GPUHEAP_FN bool put_mask(unsigned s, word mask) const {
    // consume_release: releases the pages to the next claim; acquires what the others' owners did, if the segment becomes whole.
    return (pages_of(s).fetch_or(mask, simt::consume_release) | mask) == all_pages();
  }
  // Both are called during a relocation.
  GPUHEAP_COLD void leave_broken(unsigned s) const {
    if (erase_broken(s) && has_pages(s)) make_broken(s);
  }
  // Returns how many more broken segments may be looked at.
  [[nodiscard]] GPUHEAP_COLD unsigned claim_pages_in_leaf(unsigned i, unsigned n, unsigned least, unsigned segments_left, unsigned spread,
                                                          lazy_relocation& relocation, claim& found) const {
    word bits = broken.leaf(i).load(simt::relaxed);
    if (bits == 0) {
      relocation.begin();
      broken.clear_stale(i);
    }
    unsigned const turn = spread % 64;
    // Other values of `spread` begin at other segments.
    if (turn != 0) bits = bits >> turn | bits << (64 - turn);
    GPUHEAP_NO_UNROLL
    for (; bits != 0 && segments_left != 0 && found.first == none; bits &= bits - 1, --segments_left)
      found = claim_pages_of(i * 64 + ((simt::lowest_bit(bits) + turn) & 63), n, least, relocation);
    return segments_left;
  }
  [[nodiscard]] GPUHEAP_COLD claim claim_pages_of(unsigned s, unsigned n, unsigned least, lazy_relocation& relocation) const {
    // relaxed: a guess at what the fetch_and will find.
    word free = pages_of(s).load(simt::relaxed);
    if (free == 0) {
      // Not broken any more, unless a release comes in between.
      relocation.begin();
      leave_broken(s);
      return {};
    }
    // Ends: a pass makes n smaller, down to `least`, or has lost at least one bit of `free` to another claim.
    GPUHEAP_NO_UNROLL
    while (n >= least) {
      word const starts = starts_of(free, n);
      if (starts == 0) {
        if (n == least) break;
        n = n / 2 > least ? n / 2 : least;
        continue;
      }
      unsigned const at = simt::lowest_bit(starts);
      word const mask = simt::low_bits(n) << at;
      relocation.begin();
      // consume_release: acquires what the last owner released; releases this thread's begin() to a thread that finds the pages gone.
      word const got = pages_of(s).fetch_and(~mask, simt::consume_release) & mask;
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
