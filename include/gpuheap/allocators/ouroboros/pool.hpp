// The pool: the chunks that no thread has. As published, a counter marks the first chunk that no thread has ever had, so a launch gets
// adjacent chunks. A used chunk, which some thread had before, has a bit in a tree; the published form has a ring in each instance instead.
// Here each chunk is in the pool only once, and a chunk of the second instance is free when all its parts are.
//
// Single chunks are taken from the used ones before the fresh ones, regions from the fresh ones before the used ones. Used chunks are taken
// by one fetch_and on a leaf; the search begins at the lowest address. Bits that were taken and are put back, and summary bits that are
// being cleared, are invisible for a moment. That happens during a relocation.
#pragma once

#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/relocation_count.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro {

using simt::uint32_t;
using simt::uint64_t;
using structures::bitmap_tree;
using structures::relocation_count;

// Chunks of one leaf.
struct chunk_set {
  uint32_t base = 0;  // the chunk of bit 0
  uint64_t bits = 0;
};

// The bits of `free` in aligned groups of 2^lg bits (lg <= 6) that are entirely set.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t whole_groups(uint64_t free, unsigned lg) {
  uint64_t heads = free;
  // After this loop, a bit is set if 2^lg bits from it on are set.
  for (unsigned i = 0; i != lg; ++i) heads &= heads >> (1u << i);
  uint64_t firsts = ~uint64_t{0};
  // `firsts` gets the lowest bit of each group.
  if (lg != 0) firsts /= simt::low_bits(1u << lg);
  heads &= firsts;
  for (unsigned i = 0; i != lg; ++i) heads |= heads << (1u << i);
  return heads;
}
static_assert(whole_groups(0xf7f0, 2) == 0xf0f0 && whole_groups(0xe, 1) == 0xc && whole_groups(5, 0) == 5);
static_assert(whole_groups(~uint64_t{0}, 6) == ~uint64_t{0} && whole_groups(~uint64_t{1}, 6) == 0);

// The n lowest bits of x, or all of them.
[[nodiscard]] GPUHEAP_HD constexpr uint64_t lowest_bits(uint64_t x, unsigned n) {
  uint64_t rest = x;
  GPUHEAP_NO_UNROLL
  for (; n != 0 && rest != 0; --n) rest &= rest - 1;
  return x & ~rest;
}
static_assert(lowest_bits(0b11010, 2) == 0b1010 && lowest_bits(3, 5) == 3 && lowest_bits(3, 0) == 0);

// A view of the pool. Device, any thread. Regions are aligned groups of 2^lg_region chunks.
struct chunk_pool {
  bitmap_tree free;
  unsigned lg_region = 0;
  unsigned* num_used = nullptr;  // free chunks in the tree. Exact while no thread takes or releases chunks
  uint32_t* fresh = nullptr;     // the first chunk that no thread has had; beyond the last chunk if threads claimed in vain
  uint32_t* num_chunks = nullptr;

  // Takes up to n (1 to 64) chunks, or regions if `regions`, of one leaf. If it takes any, a relocation is open in `moves` afterwards. The
  // caller ends it when other threads can find the chunks' contents. The set is empty if no chunk was free.
  [[nodiscard]] GPUHEAP_COLD static chunk_set claim(chunk_pool const& pool, unsigned n, bool regions, relocation_count moves) {
    chunk_set got;
    // relaxed: a hint. If there is no fresh chunk, claim_used() below also finds chunks that were released meanwhile.
    if (!regions && simt::global_ref<unsigned>{*pool.num_used}.load(simt::relaxed) != 0) got = claim_used(pool, n, regions, moves);
    if (got.bits == 0) got = pool.claim_fresh(n, regions, moves);
    return got.bits != 0 ? got : claim_used(pool, n, regions, moves);
  }
  // Whether some chunk seems to be free. relaxed: a hint.
  [[nodiscard]] GPUHEAP_FN bool may_have_any() const {
    return simt::global_ref<unsigned>{*num_used}.load(simt::relaxed) != 0 ||
           simt::global_ref<uint32_t>{*fresh}.load(simt::relaxed) < simt::plain_read(*num_chunks);
  }
  // Releases n chunks from `first` on, which lie in one leaf. set_mask() has the release order.
  GPUHEAP_FN void release(uint32_t first, unsigned n) const {
    // relaxed: a count.
    simt::global_ref<unsigned>{*num_used}.fetch_add(n, simt::relaxed);
    free.set_mask(first / 64, simt::low_bits(n) << (first % 64));
  }

 private:
  // As claim(), from the chunks that no thread has had. Chunks that it skips, at the end of a leaf or before a region, become used ones.
  [[nodiscard]] GPUHEAP_FN chunk_set claim_fresh(unsigned n, bool regions, relocation_count moves) const {
    uint32_t const there = simt::plain_read(*num_chunks), mask = regions ? (1u << lg_region) - 1 : 0;
    simt::global_ref<uint32_t> const next{*fresh};
    // relaxed: a hint, which the claim below confirms.
    uint32_t seen = next.load(simt::relaxed);
    if (seen >= there) return {};
    moves.begin();
    uint32_t first = 0, end = 0;
    // relaxed, all: no thread has written to a fresh chunk, and the kernel that cleared its metadata has ended.
    if (!regions) {
      // Behind the last chunk, the count grows at most by one claim of each thread that loaded it before, so it stays far from 2^32.
      first = seen = next.fetch_add(n, simt::relaxed);
      end = first + n;
    } else {
      // Ends: a pass that is repeated lost the word to another thread's claim. Lock-free.
      GPUHEAP_NO_UNROLL
      do {
        first = (seen + mask) & ~mask;
        end = first + (n << lg_region);
      } while (seen < there && !next.compare_exchange(seen, end, simt::relaxed, simt::relaxed));
    }
    if (end > there) end = there;
    if (seen >= there || first >= end) {
      // If there is no room for a region, the chunks before it become used ones.
      if (seen < there) release_each(seen, there);
      moves.end();
      return {};
    }
    release_each(seen, first);
    // The chunks of the next leaf become used ones.
    uint32_t const leaf_end = (first | 63) + 1;
    if (end > leaf_end) {
      release_each(leaf_end, end);
      end = leaf_end;
    }
    return {first & ~63u, simt::low_bits(end - first) << (first % 64)};
  }
  // Releases the chunks first..end-1, leaf by leaf.
  GPUHEAP_FN void release_each(uint32_t first, uint32_t end) const {
    // Ends: one pass per leaf.
    GPUHEAP_NO_UNROLL
    while (first < end) {
      uint32_t const leaf_end = (first | 63) + 1, to = end < leaf_end ? end : leaf_end;
      release(first, to - first);
      first = to;
    }
  }
  [[nodiscard]] GPUHEAP_FN static chunk_set claim_used(chunk_pool const& pool, unsigned n, bool regions, relocation_count moves) {
    bitmap_tree const& tree = pool.free;
    chunk_set got;
    unsigned start = 0, spread = simt::global_warp();
    // Ends: a pass that is repeated lost bits to another thread's claim. Lock-free.
    GPUHEAP_NO_UNROLL
    for (bool lost = true; lost;) {
      lost = false;
      tree.for_each_leaf(start, [&](unsigned i) {
        uint64_t const seen = tree.leaf(i).load(simt::relaxed);  // relaxed: a guess, which take_mask() confirms
        if (seen == 0) {
          moves.begin();
          tree.clear_stale(i);
          moves.end();
          return false;
        }
        uint64_t const wanted = choose(seen, n, regions, pool.lg_region);
        if (wanted == 0) return false;
        moves.begin();
        uint64_t const taken = tree.take_mask(i, wanted);
        got = {i * 64, regions ? whole_groups(taken, pool.lg_region) : taken};
        if (got.bits != taken) tree.set_mask(i, taken & ~got.bits);
        if (got.bits != 0) return true;
        moves.end();
        // The search continues at another leaf, so that threads that met here do not meet again.
        lost = true;
        spread = spread * 0x9e3779b1u + 1;
        start = i + 1 + (spread >> 26);
        if (start >= tree.num_leaves) start = 0;
        return true;
      });
    }
    // relaxed: a count.
    if (got.bits != 0) simt::global_ref<unsigned>{*pool.num_used}.fetch_sub(simt::popcount(got.bits), simt::relaxed);
    return got;
  }
  // The bits to take out of `seen`. Single chunks come from regions of which a part is taken already, if there are any.
  [[nodiscard]] GPUHEAP_FN static uint64_t choose(uint64_t seen, unsigned n, bool regions, unsigned lg_region) {
    uint64_t const whole = whole_groups(seen, lg_region);
    if (regions) return lowest_bits(whole, n << lg_region);
    uint64_t const parts = lowest_bits(seen & ~whole, n);
    return parts != 0 ? parts : lowest_bits(whole, n);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::ouro
