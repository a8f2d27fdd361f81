// Records the free memory of a heap, in segments and pages, and claims contiguous parts of it.
//
// A segment has 2^lg_pages pages, at most 64. It is whole (no page has an owner), broken (its pages have owners of their own), or owned as
// a whole.
//   whole    a bit for each segment, in a tree: set while the segment is whole
//   pages    a word for each segment: the bits of a broken segment's free pages; 0 for other segments
//   broken   a bit for each segment whose pages word may not be 0, in a tree
// A claim is one fetch_and on the word that has all the bits that it wants. If all of these bits were set, the thread owns them. If only
// some were set, the thread puts them back. A release that completes a pages word makes the segment whole again, by one compare-exchange.
// A release of all pages of a segment at once, by their one owner, makes it whole directly.
// Lock-free: a claim that was possible fails only because another claim took some of its bits.
//
// An extent is any number of contiguous pages. Its owner owns each segment that it covers entirely as a whole, and pages of a broken
// segment at either end. A claim of an extent takes one fetch_and for each leaf of `whole` and for each end, and gets all of the extent or
// nothing. A thread waits once for four leaves, since an extent may cover hundreds of them.
//
// For a moment, searches cannot find bits that a claim puts back, free pages whose segment changes between broken and whole, or bits below
// a summary bit that is being cleared. All these changes happen during a relocation.
#pragma once

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// The positions at which `n` consecutive set bits of `free` begin, as a mask. 1 <= n <= 64.
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

// A relocation that opens when its thread first changes a word. A search that changes nothing therefore opens no relocation. The object
// belongs to one thread.
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
    unsigned first = none;  // none if the claim got nothing
    unsigned length = 0;
    bool of_segments = false;
    bool stale = false;  // the claim emptied its leaf, so finish_claim() must clear the leaf's summary bit
  };

  bitmap_tree whole, broken;
  word* pages = nullptr;
  unsigned num_segments = 0;
  unsigned lg_pages = 6;
  unsigned* num_free = nullptr;     // the number of free pages: a hint, exact while no call is under way
  unsigned* least_free = nullptr;   // the smallest value that num_free ever had
  simt::uint32_t* marks = nullptr;  // null, or a word for each segment: broken_up while it is broken, 0 while it is whole
  unsigned mark_stride = 1;
  static constexpr simt::uint32_t broken_up = 1;

  [[nodiscard]] GPUHEAP_HD unsigned pages_per_segment() const { return 1u << lg_pages; }
  [[nodiscard]] GPUHEAP_FN unsigned free_hint() const { return simt::global_ref<unsigned>{*num_free}.load(simt::relaxed); }
  // Whether any page may be free. If false, none was, under the conditions of bitmap_tree::maybe_any().
  [[nodiscard]] GPUHEAP_FN bool maybe_any() const { return whole.maybe_any() || broken.maybe_any(); }

  // ---- claims. If a claim changed any word, `relocation` is open afterwards. The caller ends it when other threads can find the claimed
  // memory in another structure. With `spread` 0 a claim takes the lowest place, so that addresses stay close together. Other values make
  // claims begin at different places, so that many claims at once do not collide in one word.

  // Claims whole segments with about `pages_wanted` pages together, at most `most` <= 64 segments. The number of segments is that of
  // pages_wanted + pages_wanted / 8 pages, rounded down. Claims nothing if the number is 0, or if no segment is whole.
  [[nodiscard]] GPUHEAP_FN claim claim_segments(unsigned pages_wanted, unsigned most, unsigned spread, lazy_relocation& relocation) const {
    unsigned const n = (pages_wanted + (pages_wanted >> 3)) >> lg_pages;
    if (n == 0 || most == 0) return {};
    return claim_row(n < most ? n : most, spread, relocation);
  }

  // Subtracts the claimed pages from num_free, and clears the stale summary bit of `whole`. Called once for each claim that got something,
  // while its relocation is open. Returns the number of free pages that are left, for note_free().
  [[nodiscard]] GPUHEAP_FN unsigned finish_claim(claim got) const {
    unsigned const left = subtract_free(got.of_segments ? got.length << lg_pages : got.length);
    if (got.stale) whole.clear_stale((got.of_segments ? got.first : got.first >> lg_pages) / 64);
    // relaxed: a guess. A thread that finds the word empty later does the same.
    if (!got.of_segments && pages_of(got.first >> lg_pages).load(simt::relaxed) == 0) leave_broken(got.first >> lg_pages);
    return left;
  }
  // Lowers least_free to `left`, if it is higher. Called once after each claim, with what subtract_free() or finish_claim() returned.
  GPUHEAP_FN void note_free(unsigned left) const {
    // relaxed: a hint.
    simt::global_ref<unsigned>{*least_free}.fetch_min(left, simt::relaxed);
  }

  // Claims up to n contiguous pages, and at least `least`, in one of the first `segments_left` broken segments that it finds.
  [[nodiscard]] GPUHEAP_COLD claim claim_pages(unsigned n, unsigned least, unsigned segments_left, unsigned spread,
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
  // addresses, because spans take the lowest. Returns the first page or none. Each attempt to take bits is a relocation of its own; the
  // search before it opens none.
  [[nodiscard]] GPUHEAP_COLD unsigned claim_extent(unsigned n, unsigned alignment, unsigned phase, relocation_count relocations) const {
    if (n == 0 || n > num_segments << lg_pages) return none;
    extent_search search{n, alignment, phase, relocations, whole.num_leaves};
    // Ends: `next_leaf` falls to 0. Each of at most `most_losses` lost races raises it once.
    GPUHEAP_NO_UNROLL
    while (search.next_leaf != 0) {
      unsigned const got = whole_leaves_follow(search) ? add_leaves(search) : look_in_leaf(search, --search.next_leaf);
      if (got != none) return got;
    }
    return none;
  }

  // Claims the pages first..first+n-1, all or none. The attempt is a relocation. If loads show that it cannot succeed, the call makes no
  // attempt.
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

  // Takes pages of segment s: all of `mask` or none. If the segment is whole, the call breaks it. Called during a relocation.
  GPUHEAP_FN bool take_part(unsigned s, word mask) const {
    // consume_release, both: as in claim_pages_of().
    word const before = pages_of(s).fetch_and(~mask, simt::consume_release);
    if ((before & mask) == mask) {
      if ((before & ~mask) == 0) leave_broken(s);
      return true;
    }
    if ((before & mask) != 0) {
      if (put_mask(s, before & mask)) rejoin(s);
      return false;
    }
    word const bit = word{1} << (s % 64);
    if ((whole.leaf(s / 64).fetch_and(~bit, simt::consume_release) & bit) == 0) return false;
    break_up(s, all_pages() & ~mask);
    return true;
  }

  // Releases n pages from `first` on, which the caller owns: pages of one broken segment, segments that it owns as a whole, or an extent.
  // A segment becomes whole if all of its pages are free then. The caller has prepared the pages' metadata for the next owner, and the
  // release publishes it.
  GPUHEAP_FN void release_pages(unsigned first, unsigned n, relocation_count relocations) const {
    count_free(n);
    put_pages(first, n, relocations);
  }
  // Turns a broken segment, all of whose pages one extent owns, into a segment that the extent owns as a whole. The caller has already set
  // the segment's word of `marks`.
  GPUHEAP_FN void own_whole(unsigned s, relocation_count relocations) const {
    relocations.begin();
    leave_broken(s);
    relocations.end();
  }
  // Breaks a segment that is owned as a whole, and makes its pages `mask` free. Called during a relocation if other threads may search for
  // these pages.
  GPUHEAP_COLD void break_up(unsigned s, word mask) const {
    // relaxed: the release below orders the store, or the owner's later release of the pages does.
    if (marks != nullptr) mark_of(s).store(broken_up, simt::relaxed);
    if (mask == 0) return;
    // consume_release: passes on what the owner acquired.
    pages_of(s).fetch_or(mask, simt::consume_release);
    make_broken(s);
  }
  // Puts back the segments `got` of leaf i, because a claim got fewer than it wanted.
  GPUHEAP_COLD void put_back(unsigned i, word got, bool emptied) const {
    if (emptied) whole.clear_stale(i);
    if (got != 0) whole.set_mask(i, got);
  }
  // Adds pages to num_free. Callers do so before the pages are free, so that no claim of these pages is subtracted first.
  GPUHEAP_FN void count_free(unsigned num_pages) const {
    // relaxed: a hint.
    simt::global_ref<unsigned>{*num_free}.fetch_add(num_pages, simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<word> pages_of(unsigned s) const { return simt::global_ref<word>{pages[s]}; }

  // A part of an extent that lies in one segment. part_at(): the part of the n pages from `first` on that lies in the segment of `first`.
  struct part {
    unsigned segment, pages;
    word mask;
  };
  [[nodiscard]] GPUHEAP_HD part part_at(unsigned first, unsigned n) const {
    unsigned const in = first & (pages_per_segment() - 1), left = pages_per_segment() - in, num_pages = n < left ? n : left;
    return {first >> lg_pages, num_pages, simt::low_bits(num_pages) << in};
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::global_ref<simt::uint32_t> mark_of(unsigned s) const {
    return simt::global_ref<simt::uint32_t>{marks[simt::size_t{s} * mark_stride]};
  }
  [[nodiscard]] GPUHEAP_HD word all_pages() const { return simt::low_bits(pages_per_segment()); }
  [[nodiscard]] GPUHEAP_FN unsigned subtract_free(unsigned n) const {
    // relaxed: a hint. The claim itself is ordered by its word.
    return simt::global_ref<unsigned>{*num_free}.fetch_sub(n, simt::relaxed) - n;
  }

  // ---- extents
  struct extent_search {
    unsigned n, alignment, phase;
    relocation_count relocations;
    unsigned next_leaf;   // the search has still to look at the leaves below this one
    unsigned length = 0;  // the number of consecutive free pages, from the lowest page that the search has seen upward
    bool lost = false;    // the last attempt failed, and its leaf is to be searched again
    unsigned losses = 0;
    // After more losses a search goes on with the pages below. Otherwise all searches that collide in a leaf would search it again after
    // each success of one of them.
    static constexpr unsigned most_losses = 4;
  };
  // Whether the search has free pages down to the end of a leaf, lacks `leaves_at_once` leaves or more, and finds all segments of the next
  // leaves whole.
  static constexpr unsigned leaves_at_once = 4;
  [[nodiscard]] GPUHEAP_FN bool whole_leaves_follow(extent_search const& search) const {
    if (search.length == 0 || search.next_leaf < leaves_at_once) return false;
    if (search.n - search.length < (leaves_at_once * 64) << lg_pages) return false;
    // relaxed: a guess at what take_extent will find. A loop of fixed length, which the compiler unrolls: the loads are in flight together.
    word all = ~word{0};
    for (unsigned k = 1; k <= leaves_at_once; ++k) all &= whole.leaf(search.next_leaf - k).load(simt::relaxed);
    return all == ~word{0};
  }
  // Adds these leaves to the row of the search. Returns the claimed first page or none.
  [[nodiscard]] GPUHEAP_FN unsigned add_leaves(extent_search& search) const {
    search.next_leaf -= leaves_at_once;
    unsigned const got = try_row(search, search.next_leaf * 64 << lg_pages, (leaves_at_once * 64) << lg_pages);
    search.lost = false;  // after a lost race, try_row() has set the leaf to search next
    return got;
  }
  // Searches leaf i, from its highest segment down, for free pages that complete the extent. Returns the claimed first page or none.
  [[nodiscard]] GPUHEAP_FN unsigned look_in_leaf(extent_search& search, unsigned i) const {
    // relaxed, all: guesses at what take_extent will find.
    word const all = whole.leaf(i).load(simt::relaxed);
    unsigned above = 64;  // the lowest segment that the search has seen
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
  // Searches the pages of broken segment s in the same way.
  [[nodiscard]] GPUHEAP_FN unsigned look_in_segment(extent_search& search, unsigned s) const {
    word rest = pages_of(s).load(simt::relaxed);
    unsigned next = pages_per_segment();  // the search has still to look at the pages below this one
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
  // Tries to claim the extent in `row` free pages from `first` on. They lie directly below the `search.length` free pages that the search
  // has seen before, if that is not 0. Returns the first claimed page or none. After a lost race the search repeats the leaf in which these
  // pages end, because the pages that the winner left may form an extent with pages below. After several lost races it goes on with the
  // pages below. The winner's claim is a relocation, so the relocation count tells a caller that this search may have missed pages.
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

  // ---- segments
  // Takes all of the extent or nothing. Leaves that the call empties keep their summary bits: other threads' occasional reads of empty
  // leaves cost less than clearing many bits. Called during a relocation.
  [[nodiscard]] GPUHEAP_FN bool take_extent(unsigned first, unsigned n, relocation_count relocations) const {
    unsigned taken = 0;
    // Ends: `taken` rises: by one end, by all whole segments, by the other end.
    GPUHEAP_NO_UNROLL
    while (taken != n) {
      part const here = part_at(first + taken, n - taken);
      unsigned got = 0;
      if (here.mask == all_pages()) {
        unsigned const row = (n - taken) >> lg_pages;
        if (whole.take_run_leaves_only(here.segment, row)) got = row << lg_pages;
      } else if (take_part(here.segment, here.mask)) {
        got = here.pages;
      }
      if (got == 0) {
        put_pages(first, taken, relocations);
        return false;
      }
      taken += got;
    }
    note_free(subtract_free(n));
    return true;
  }
  // Makes n pages from `first` on free: whole segments by set_run(), the pages of broken segments by put_mask().
  GPUHEAP_COLD void put_pages(unsigned first, unsigned n, relocation_count relocations) const {
    // Ends: `n` falls: by one end, by all whole segments, by the other end.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      part const here = part_at(first, n);
      unsigned done = here.pages;
      if (here.mask == all_pages()) {
        // The n pages may be all pages of one broken segment. relaxed: the release below orders the store.
        if (marks != nullptr) mark_of(here.segment).store(0, simt::relaxed);
        unsigned const row = n >> lg_pages;
        whole.set_run(here.segment, row);
        done = row << lg_pages;
      } else if (put_mask(here.segment, here.mask)) {
        relocations.begin();
        rejoin(here.segment);
        relocations.end();
      }
      first += done;
      n -= done;
    }
  }
  // Claims up to n consecutive segments of one leaf.
  [[nodiscard]] GPUHEAP_COLD claim claim_row(unsigned n, unsigned spread, lazy_relocation& relocation) const {
    claim got{};
    unsigned const start = spread == 0 ? 0 : spread % whole.num_leaves;
    // Ends: after two rounds at most. The first takes only rows of at least n / 4 segments, the second any.
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
  [[nodiscard]] GPUHEAP_FN claim claim_in_leaf(unsigned i, unsigned n, unsigned least, unsigned spread, lazy_relocation& relocation) const {
    // relaxed: a guess at what the take will find.
    word free = whole.leaf(i).load(simt::relaxed);
    if (free == 0) {
      relocation.begin();
      whole.clear_stale(i);
      return {};
    }
    // The least number of segments that this pass takes. With `spread` 0 the first pass takes the lowest row of `least` or more; otherwise
    // it looks for a row of n.
    unsigned row = spread == 0 ? least : n;
    // Ends: a pass makes `row` smaller, or has lost at least one bit of `free` to another claim.
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
      relocation.begin();
      bool emptied = false;
      word const got = whole.take_leaf_only(i, mask, emptied);
      if (got == mask) return {i * 64 + at, length, true, emptied};
      put_back(i, got, emptied);
      free &= ~mask | got;
    }
    return {};
  }
  // Picks the lowest of `starts` if `spread` is 0, otherwise one of the lowest eight.
  [[nodiscard]] GPUHEAP_FN static unsigned pick(word starts, unsigned spread) {
    GPUHEAP_NO_UNROLL
    for (unsigned skip = spread >> 8 & 7; skip != 0 && (starts & (starts - 1)) != 0; --skip) starts &= starts - 1;
    return simt::lowest_bit(starts);
  }

  // ---- pages
  // Makes the pages `mask` of a broken segment free. True: all pages of the segment are free, and the caller must call rejoin(), during a
  // relocation.
  GPUHEAP_FN bool put_mask(unsigned s, word mask) const {
    // consume_release: releases the pages to the next claim. If the segment becomes whole, it also acquires what the owners of its other
    // pages did.
    bool const all = (pages_of(s).fetch_or(mask, simt::consume_release) | mask) == all_pages();
    make_broken(s);
    return all;
  }
  GPUHEAP_COLD void make_broken(unsigned s) const { broken.set(s); }
  // The functions below are called during a relocation.
  //
  // Makes a broken segment whole, if all of its pages are free.
  GPUHEAP_COLD void rejoin(unsigned s) const {
    word expected = all_pages();
    // consume_release: as in put_mask(). If the exchange fails, another thread has claimed pages, and the thread that releases them calls
    // this again.
    if (!pages_of(s).compare_exchange(expected, 0, simt::consume_release, simt::relaxed)) return;
    // relaxed: the release below orders the store.
    if (marks != nullptr) mark_of(s).store(0, simt::relaxed);
    whole.set(s);
    leave_broken(s);
  }
  // Clears the bit in `broken` of a segment without free pages. If another thread releases pages of the segment at the same time, the bit
  // is set again. The summaries of `broken` stay as they are: the next search that reads an empty leaf clears its stale summary bit.
  GPUHEAP_COLD void leave_broken(unsigned s) const {
    bool emptied = false;
    if (broken.take_leaf_only(s / 64, word{1} << (s % 64), emptied) != 0 && pages_of(s).load(simt::acquire) != 0) make_broken(s);
  }
  // Claims pages in the broken segments of leaf i. Returns how many further segments the search may try.
  [[nodiscard]] GPUHEAP_FN unsigned claim_pages_in_leaf(unsigned i, unsigned n, unsigned least, unsigned segments_left, unsigned spread,
                                                        lazy_relocation& relocation, claim& found) const {
    word bits = broken.leaf(i).load(simt::relaxed);
    if (bits == 0) {
      relocation.begin();
      broken.clear_stale(i);
    }
    unsigned const turn = spread % 64;
    // A different `spread` begins at a different segment.
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
      // The segment has no free page. leave_broken() allows for a release that comes in between.
      relocation.begin();
      leave_broken(s);
      return {};
    }
    // Ends: a pass makes n smaller, down to `least`, or has lost at least one bit of `free` to another claim.
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
      relocation.begin();
      // consume_release: acquires what the last owner released; releases this thread's begin() to a thread that finds the pages gone.
      word const got = pages_of(s).fetch_and(~mask, simt::consume_release) & mask;
      if (got == mask) return {(s << lg_pages) + at, n, false};
      if (got != 0 && put_mask(s, got)) rejoin(s);
      free &= ~mask | got;
    }
    return {};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
