// A set of small integers as a bitmap with a summary: leaves of 64 bits, and one summary bit per leaf.
//
// Invariant, whenever no operation is under way: a leaf with a bit set has its summary bit set. The converse may fail: a summary bit over
// an empty leaf costs a look and is dropped by tidy().
//
//   set:   leaf |= bits;  summary |= bit          (both always, in this order)
//   tidy:  summary &= ~bit;  leaf != 0 ? summary |= bit
// All are read-modify-writes with acquire and release: if tidy's `and` comes first, the setter's `or` restores the bit; if it comes second,
// it has read from the setter's `or`, so its look at the leaf finds the setter's bits. No fence is needed. While a tidy is under way a
// summary bit can be missing for a moment: who must not miss a bit checks afterwards that no take was under way (transit_count).
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// A view of words that live elsewhere. Leaves lie `leaf_stride` words apart, to spread hot ones over the memory's slices.
struct bitmap_tree {
  using word = simt::uint64_t;
  static constexpr unsigned bits_per_leaf = 64;

  word* leaves = nullptr;
  word* summary = nullptr;
  unsigned num_leaves = 0;
  unsigned leaf_stride = 1;

  // Words that a tree over `num_bits` bits takes.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned leaves_for(simt::uint64_t num_bits) {
    return static_cast<unsigned>(simt::ceil_div(num_bits, bits_per_leaf));
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned summaries_for(unsigned num_leaves) {
    return static_cast<unsigned>(simt::ceil_div(num_leaves, 64));
  }
  [[nodiscard]] GPUHEAP_HD unsigned num_summaries() const { return summaries_for(num_leaves); }

  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<word> leaf(unsigned i) const {
    return simt::atomic_ref<word>{leaves[simt::size_t{i} * leaf_stride]};
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<word> summary_word(unsigned i) const { return simt::atomic_ref<word>{summary[i]}; }

  // Adds the bits `mask` of leaf i. Any thread.
  GPUHEAP_FN void set_mask(unsigned i, word mask) const {
    // acq_rel: publishes what the bits stand for to whoever takes them; see the head for the summary's pairing.
    leaf(i).fetch_or(mask, simt::acq_rel);
    summary_word(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel);
  }
  GPUHEAP_FN void set(unsigned bit) const { set_mask(bit / 64, word{1} << (bit % 64)); }

  // Takes the bits `mask` of leaf i; returns those that were there. Any thread.
  GPUHEAP_FN word take_mask(unsigned i, word mask) const {
    // acq_rel: acquires what the setter published; releases this thread's earlier accesses to the next setter or taker of the leaf.
    word const before = leaf(i).fetch_and(~mask, simt::acq_rel);
    if ((before & ~mask) == 0) tidy(i);
    return before & mask;
  }
  // Takes one bit; true if it was there.
  GPUHEAP_FN bool take(unsigned bit) const { return take_mask(bit / 64, word{1} << (bit % 64)) != 0; }

  // Drops the summary bit of a leaf that was seen empty, unless it no longer is.
  GPUHEAP_FN void tidy(unsigned i) const {
    summary_word(i / 64).fetch_and(~(word{1} << (i % 64)), simt::acq_rel);
    if (leaf(i).load(simt::acquire) != 0) summary_word(i / 64).fetch_or(word{1} << (i % 64), simt::acq_rel);
  }

  // Whether any bit may be set. False is exact for sets that happened before, if no take was under way. Any thread.
  [[nodiscard]] GPUHEAP_FN bool maybe_any() const {
    // Ends: one pass per summary word.
    for (unsigned a = 0; a < num_summaries(); ++a) {
      if (summary_word(a).load(simt::acquire) != 0) return true;
    }
    return false;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
