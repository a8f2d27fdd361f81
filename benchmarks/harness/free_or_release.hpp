// The frees of a case's kernels: block by block, or, if frees are collective, all blocks of each warp together.
#pragma once

#include <gpuheap/allocator_members.hpp>

namespace gpuheap::bench {

// Gives back `block`, or with it everything that the calling warp has. The kernel asks for nothing, and was launched in the shape of the
// one that asked, or a larger one with the same block_threads: warps are known by their number.
template <class Ref>
GPUHEAP_FN void free_or_release(Ref const& heap, [[maybe_unused]] void* block) {
  if constexpr (has_release_warp<typename Ref::allocator_type>) {
    heap.release_warp();
  } else {
    heap.free(block);
  }
}

// Why blocks of A cannot be given back one by one, or "".
template <class A>
[[nodiscard]] constexpr char const* why_no_single_frees() {
  return A::traits.free == frees::collectively ? "the case frees block by block, and this allocator frees all blocks of a warp at once"
                                               : "";
}

}  // namespace gpuheap::bench
