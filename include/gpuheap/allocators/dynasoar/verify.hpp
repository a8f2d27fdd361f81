// Checks the invariants of a pool of DynaSOAr blocks: a kernel with a thread for each block counts blocks and faults.
//
// While no other kernel uses the pool:
//   1. every block is either free, or allocated to the class that its tag names and to no other;
//   2. a block is active in its class if and only if it has a free slot, and is active in no other class;
//   3. no slot beyond a block's capacity is free, and no allocated block has all slots free;
//   4. above a set bit of a tree the summary bits are set.
#pragma once

#include <gpuheap/allocators/dynasoar/layout.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa {

// The fault of a block.
enum class fault : uint32_t { none, free_and_not, tag_and_bits, active_and_not, beyond_capacity, empty, summary };

// Kernel, a thread for each block: counts the blocks of the class `only`, or of every class if that is all_classes, and finds faults. All
// accesses are relaxed, since no other kernel uses the pool.
struct take_census {
  static constexpr unsigned all_classes = ~0u;
  pool_layout pool;
  unsigned only;

  GPUHEAP_FN void operator()(unsigned b) const {
    census& found = pool.state()->found;
    block_tag const tag{read(pool.blocks()[b].tag)};
    uint64_t const slots = read(pool.blocks()[b].free);
    if (tag.is_free()) {
      add(found.free, 1);
    } else if (only == all_classes || tag.is_of(only)) {
      add(found.allocated, 1);
      add(found.active, slots != 0);
      add(found.slots, tag.capacity());
      add(found.live, tag.capacity() - simt::popcount(slots));
    }
    fault const f = fault_of(b, tag, slots);
    if (f == fault::none) return;
    simt::global_ref<uint64_t>{found.first_fault}.fetch_max(~(uint64_t{b} << 32 | static_cast<uint32_t>(f)), simt::relaxed);
  }

 private:
  GPUHEAP_FN static void add(uint64_t& to, uint64_t n) {
    if (n != 0) simt::global_ref<uint64_t>{to}.fetch_add(n, simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN static uint64_t read(uint64_t& word) { return simt::global_ref<uint64_t>{word}.load(simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN static bool has(bitmap_tree tree, unsigned b) {
    return (tree.leaf(b / 64).load(simt::relaxed) >> (b % 64) & 1) != 0;
  }
  // Whether the summary bits above b's leaf are set.
  [[nodiscard]] GPUHEAP_FN static bool is_summed_up(bitmap_tree tree, unsigned b) {
    unsigned const leaf = b / 64;
    if ((tree.mid(leaf / 64).load(simt::relaxed) >> (leaf % 64) & 1) == 0) return false;
    return tree.num_tops() == 0 || (tree.top(leaf / 4096).load(simt::relaxed) >> (leaf / 64 % 64) & 1) != 0;
  }
  [[nodiscard]] GPUHEAP_FN fault fault_of(unsigned b, block_tag tag, uint64_t slots) const {
    bool const is_free = has(pool.free_blocks(), b);
    if (is_free != tag.is_free()) return fault::free_and_not;
    if (is_free && !is_summed_up(pool.free_blocks(), b)) return fault::summary;
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c != pool.num_classes; ++c) {
      bool const allocated = (read(pool.allocated(c)[b / 64]) >> (b % 64) & 1) != 0;
      if (allocated != tag.is_of(c)) return fault::tag_and_bits;
      bool const active = has(pool.active(c), b);
      if (active != (tag.is_of(c) && slots != 0)) return fault::active_and_not;
      if (active && !is_summed_up(pool.active(c), b)) return fault::summary;
    }
    if ((slots & ~tag.all()) != 0) return fault::beyond_capacity;
    return !tag.is_free() && slots == tag.all() ? fault::empty : fault::none;
  }
};

// Kernel: thread i writes word i of each level of the free tree, so that all blocks are free. Thread 0 also writes the layout. The rest of
// the metadata stays zero.
struct free_all_blocks {
  pool_layout pool;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (i == 0) simt::plain_write(pool.state()->layout, pool);
    bitmap_tree const tree = pool.free_blocks();
    write(tree.leaves, i, pool.num_blocks);
    write(tree.mids, i, tree.num_leaves);
    write(tree.tops, i, tree.num_tops() == 0 ? 0 : tree.num_mids());
  }

 private:
  // Writes word i of a level of `bits` bits, all of which are set.
  GPUHEAP_FN static void write(uint64_t* level, unsigned i, unsigned bits) {
    if (i < bitmap_tree::leaves_for(bits)) simt::plain_write(level[i], simt::low_bits(bits - i * 64 < 64 ? bits - i * 64 : 64));
  }
};

#if GPUHEAP_HAS_HOST
// The result of verify(). Host.
struct audit {
  std::string problem;  // empty: every invariant holds
  census found{};

  // The paper's fragmentation: the share of the allocated blocks' slots that are free. 0 if no block is allocated.
  [[nodiscard]] double fragmentation() const {
    return found.slots == 0 ? 0 : 1 - static_cast<double>(found.live) / static_cast<double>(found.slots);
  }
};

// Writes the metadata of a pool whose blocks are all free, in stream order. Host.
inline void initialise(pool_layout const& pool, stream_ref stream) {
  simt::fill(pool.base, 0, pool.metadata_bytes(), stream);
  launch(pool.num_leaves(), free_all_blocks{pool}, {.stream = stream});
}

// Counts the blocks of the class `only`, or of all classes, and checks every block. Host; waits for the stream.
[[nodiscard]] inline audit verify(pool_layout const& pool, stream_ref stream, unsigned only = take_census::all_classes) {
  audit a;
  simt::fill(&pool.state()->found, 0, sizeof a.found, stream);
  launch(pool.num_blocks, take_census{pool, only}, {.stream = stream});
  simt::copy(&a.found, &pool.state()->found, sizeof a.found, stream);
  simt::synchronize(stream);
  if (a.found.first_fault == 0) return a;
  constexpr char const* texts[] = {"",
                                   "is in the free tree and has a tag, or is not in it and has none",
                                   "is allocated to another class than its tag names",
                                   "is active without a free slot, or has one and is not active",
                                   "has a free slot beyond its capacity",
                                   "is allocated, and none of its slots is in use",
                                   "is in a tree, and a summary bit above it is not set"};
  uint64_t const which = ~a.found.first_fault;
  a.problem = "block " + std::to_string(which >> 32) + " " + texts[static_cast<uint32_t>(which)];
  return a;
}

// Returns the number of blocks that are not free. Host; waits for the stream.
[[nodiscard]] inline uint32_t held_blocks(pool_layout const& pool, stream_ref stream) {
  std::vector<uint64_t> leaves(pool.num_leaves());
  simt::copy(leaves.data(), pool.free_blocks().leaves, leaves.size() * 8, stream);
  simt::synchronize(stream);
  uint32_t held = pool.num_blocks;
  for (uint64_t leaf : leaves) held -= simt::popcount(leaf);
  return held;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::soa
