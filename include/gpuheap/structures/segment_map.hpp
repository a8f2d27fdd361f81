// Which segments of a heap are free, and how contiguous ones are claimed.
//
// A bit per segment, 1 = free, in a bitmap tree. A claim is one fetch_and on the leaf that holds the segments (or one per leaf for claims
// longer than a leaf): whoever finds all wanted bits in the returned word owns them; whoever got only some puts them back. Lock-free; every
// failed claim was another's success.
//
// Bits that were taken and are put back, and a summary being tidied, are out of sight for a moment: claims happen inside a transit.
#pragma once

#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/transit_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Starts of free aligned blocks of 2^order bits in `free`, order 0..6.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t aligned_blocks(simt::uint64_t free, unsigned order) {
  simt::uint64_t starts = free;
  // Ends: `order` steps. Afterwards bit i says that bits i..i+2^order-1 are free.
  for (unsigned s = 0; s < order; ++s) starts &= starts >> (1u << s);
  simt::uint64_t aligned = 1;
  // Ends: at most six steps. Afterwards every 2^order-th bit is set.
  for (unsigned s = 32; s >= (1u << order); s >>= 1) aligned |= aligned << s;
  return starts & aligned;
}
static_assert(aligned_blocks(~0ull, 6) == 1 && aligned_blocks(0xf0ull, 2) == 0x10 && aligned_blocks(0x78ull, 2) == 0 &&
              aligned_blocks(5, 0) == 5);

// Starts of `n` consecutive free bits in `free`, 1 <= n <= 64.
[[nodiscard]] GPUHEAP_HD constexpr simt::uint64_t consecutive(simt::uint64_t free, unsigned n) {
  unsigned have = 1;
  // Ends: `have` at least doubles up to n, so within seven steps.
  while (have < n) {
    unsigned const step = have < n - have ? have : n - have;
    free &= free >> step;
    have += step;
  }
  return free;
}
static_assert(consecutive(0b1110, 3) == 0b10 && consecutive(0b1110, 2) == 0b110 && consecutive(~0ull, 64) == 1 &&
              consecutive(0b1011, 3) == 0);

// Device, any thread.
struct segment_map {
  using word = bitmap_tree::word;
  static constexpr unsigned max_order = 6;
  static constexpr unsigned none = ~0u;
  static constexpr unsigned leaves_to_choose_from = 8;

  struct claim {
    unsigned first = none;  // segment; none if nothing was free
    unsigned order = 0;     // 2^order segments
  };

  bitmap_tree tree;
  unsigned num_segments = 0;
  unsigned* num_free = nullptr;    // free segments now; a hint for policies, exact when nothing is under way
  unsigned* least_free = nullptr;  // the lowest it ever was

  [[nodiscard]] GPUHEAP_FN unsigned free_hint() const { return simt::atomic_ref<unsigned>{*num_free}.load(simt::relaxed); }

  // For a caller in a transit. Claims an aligned block of 2^order segments, or of fewer if there is none that large: from the lowest leaves
  // that have one, which keeps the high addresses contiguous. Claims of more than four segments choose among the lowest few leaves by
  // `spread`, so that a burst of them does not meet in one word.
  [[nodiscard]] GPUHEAP_FN claim claim_block(unsigned order, unsigned spread) const {
    unsigned skip = order > 2 ? spread % leaves_to_choose_from : 0;
    // Ends: every pass but the first lowers the order.
    GPUHEAP_NO_UNROLL
    for (;;) {
      unsigned const first = claim_in_some_leaf(order, spread, skip);
      if (first != none) return {first, order};
      if (skip != 0) {
        skip = 0;
      } else {
        if (order == 0) return {};
        --order;
      }
    }
  }

  // Claims `n` contiguous segments whose first one s has (s + phase) % alignment == 0 (alignment a power of two). Highest addresses first,
  // away from the blocks. Returns the first segment or none. Begins and ends a transit in `moves` around each attempt to take bits; looking
  // for them is none.
  [[nodiscard]] GPUHEAP_FN unsigned claim_span(unsigned n, unsigned alignment, unsigned phase, transit_count moves) const {
    if (n == 0 || n > num_segments) return none;
    unsigned length = 0;  // free segments in a row from s upward
    word free = 0;
    // Ends: `s` falls to 0. After a lost race the search goes on below: the claimer that won was in a transit, which a caller that wants
    // certainty sees.
    GPUHEAP_NO_UNROLL
    for (unsigned s = num_segments; s-- != 0;) {
      if (s % 64 == 63 || s + 1 == num_segments) {
        // relaxed: only a guess at what take_span will find.
        free = tree.leaf(s / 64).load(simt::relaxed);
        if (free == 0) {
          length = 0;
          s -= s % 64;
          continue;
        }
      }
      length = (free >> (s % 64) & 1) != 0 ? length + 1 : 0;
      if (length >= n && (s + phase) % alignment == 0) {
        moves.begin();
        bool const taken = take_span(s, n);
        moves.end();
        if (taken) return s;
        length = 0;
      }
    }
    return none;
  }

  // Gives segments first..first+n-1 back. They must be claimed, and their headers and bitmaps ready for the next owner: release order is
  // this call's.
  GPUHEAP_FN void release_span(unsigned first, unsigned n) const {
    put_back(first, n);
    // relaxed: a hint.
    simt::atomic_ref<unsigned>{*num_free}.fetch_add(n, simt::relaxed);
  }

 private:
  [[nodiscard]] GPUHEAP_FN static word span_mask(unsigned first, unsigned n) {
    unsigned const in_leaf = 64 - first % 64;
    return simt::low_bits(n < in_leaf ? n : in_leaf) << (first % 64);
  }
  GPUHEAP_FN void count_claimed(unsigned n) const {
    // relaxed: hints; the claim itself is ordered by the leaf.
    unsigned const left = simt::atomic_ref<unsigned>{*num_free}.fetch_sub(n, simt::relaxed) - n;
    simt::atomic_ref<unsigned>{*least_free}.fetch_min(left, simt::relaxed);
  }
  GPUHEAP_FN void put_back(unsigned first, unsigned n) const {
    // Ends: one pass per leaf of the span.
    GPUHEAP_NO_UNROLL
    while (n != 0) {
      word const mask = span_mask(first, n);
      tree.set_mask(first / 64, mask);
      unsigned const done = simt::popcount(mask);
      first += done;
      n -= done;
    }
  }
  // All of the span or nothing.
  GPUHEAP_FN bool take_span(unsigned first, unsigned n) const {
    unsigned taken = 0;
    // Ends: one pass per leaf of the span.
    GPUHEAP_NO_UNROLL
    while (taken != n) {
      unsigned const at = first + taken;
      word const mask = span_mask(at, n - taken);
      word const got = tree.take_mask(at / 64, mask);
      if (got != mask) {
        if (got != 0) tree.set_mask(at / 64, got);
        put_back(first, taken);
        return false;
      }
      taken += simt::popcount(mask);
    }
    count_claimed(n);
    return true;
  }
  // From the lowest leaf that can serve it, after passing over `skip` of those that are not empty.
  [[nodiscard]] GPUHEAP_FN unsigned claim_in_some_leaf(unsigned order, unsigned spread, unsigned skip) const {
    // Ends: one pass per summary word.
    GPUHEAP_NO_UNROLL
    for (unsigned a = 0; a < tree.num_summaries(); ++a) {
      // relaxed: take_mask acquires.
      word filled = tree.summary_word(a).load(simt::relaxed);
      // Ends: one pass per bit.
      GPUHEAP_NO_UNROLL
      for (; filled != 0; filled &= filled - 1) {
        if (skip != 0) {
          --skip;
          continue;
        }
        unsigned const first = claim_in_leaf(a * 64 + simt::lowest_bit(filled), order, spread);
        if (first != none) return first;
      }
    }
    return none;
  }
  [[nodiscard]] GPUHEAP_FN unsigned claim_in_leaf(unsigned i, unsigned order, unsigned spread) const {
    // relaxed: only a guess at what take_mask will find.
    word free = tree.leaf(i).load(simt::relaxed);
    if (free == 0) tree.tidy(i);
    // Ends: every pass that does not return has lost at least one bit of `free` to another claimer.
    GPUHEAP_NO_UNROLL
    for (word blocks = aligned_blocks(free, order); blocks != 0; blocks = aligned_blocks(free, order)) {
      unsigned pick = order > 2 ? spread % simt::popcount(blocks) : 0;
      // Ends: `pick` steps.
      GPUHEAP_NO_UNROLL
      for (; pick != 0; --pick) blocks &= blocks - 1;
      unsigned const at = simt::lowest_bit(blocks);
      word const mask = simt::low_bits(1u << order) << at;
      word const got = tree.take_mask(i, mask);
      if (got == mask) {
        count_claimed(1u << order);
        return i * 64 + at;
      }
      if (got != 0) tree.set_mask(i, got);
      free &= ~mask | got;
    }
    return none;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
