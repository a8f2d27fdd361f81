// The kernels of a build that ask no heap, and those that look at the tree afterwards. Compiled once, for all allocators.
#pragma once

#include <gpuheap/memory/region.hpp>
#include <gpuheap/simt/types.hpp>

#include <cstdint>

#include "workloads/kdtree/tree.hpp"

namespace gpuheap::bench::kdtree {

// The faults of a tree. All zero: none.
struct tree_faults {
  simt::uint64_t outside;    // nodes or lists that do not lie in the heap
  simt::uint64_t astray;     // references of leaves to no triangle, or to one that does not reach into the leaf
  simt::uint64_t misplaced;  // children whose box is not a part of their parent's
};

struct ray_answer {
  float by_tree, by_all;  // distance of the nearest triangle; scene::beyond_all for none
};

// All asynchronous on the stream; `threads`: a multiple of 32.
void reset_state(build_state* state, simt::uint64_t may_ask, stream_ref stream);
// Writes the root's list, and lists it as large where it is.
void fill_root(build_arrays const& tree, unsigned threads, stream_ref stream);
// Counts for the large nodes of the level.
void count_planes(build_arrays const& tree, unsigned threads, stream_ref stream);
// Hands on the references of those that were split, and notes their lists as retired.
void hand_on_large(build_arrays const& tree, unsigned threads, stream_ref stream);
void next_level(build_arrays const& tree, stream_ref stream);

// Each node's number of references, negative minus one for one that is no leaf, and the two pointers that go back to the heap.
void list_blocks(node* const* nodes, uint32_t count, std::int32_t* references, void** blocks, stream_ref stream);
// Adds to `faults`, and sets covered[t] of each triangle that some leaf refers to. `heap`: base nullptr if it is unknown.
void check_tree(build_arrays const& tree, uint32_t count, memory::region heap, tree_faults* faults, unsigned char* covered,
                stream_ref stream);
// Each ray once through the tree and once against all triangles.
void trace(node const* const* root, scene::triangle const* triangles, uint32_t num_triangles, scene::ray const* rays, uint32_t num_rays,
           ray_answer* answers, stream_ref stream);

}  // namespace gpuheap::bench::kdtree
