// Blocks that a thread of a test's kernel keeps for a short time.
#pragma once

#include "../../support/rng.hpp"
#include "../fixtures.hpp"

namespace test {

// The thread asks for a block, fills it, verifies its contents and frees it, several times. `key`: which thread of which launch. Adds the
// words that were wrong, and the requests that failed, to `wrong`.
template <class Ref>
__device__ void use_brief_blocks(Ref const& heap, simt::uint64_t key, unsigned* wrong) {
  rng random{key};
  for (unsigned round = 0; round < 8; ++round) {
    unsigned const bytes = 8 + random.below(500);
    void* const p = heap.malloc(bytes);
    if (p == nullptr) {
      atomicAdd(wrong, 1u);
      continue;
    }
    fill_pattern(p, bytes, key << 8 | round);
    unsigned const bad = wrong_words(p, bytes, key << 8 | round);
    if (bad != 0) atomicAdd(wrong, bad);
    heap.free(p);
  }
}

}  // namespace test
