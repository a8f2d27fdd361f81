// The host backend of word_pair.hpp: each load or store is two accesses of 8 bytes.
#pragma once

#include <gpuheap/simt/host/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

struct word_pair {
  uint64_t first = 0, second = 0;
};
[[nodiscard]] inline word_pair load_pair(uint64_t* at) {
  return {atomic_ref<uint64_t>{at[0]}.load(relaxed), atomic_ref<uint64_t>{at[1]}.load(relaxed)};
}
inline void store_pair(uint64_t* at, word_pair pair) {
  atomic_ref<uint64_t>{at[0]}.store(pair.first, relaxed);
  atomic_ref<uint64_t>{at[1]}.store(pair.second, relaxed);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
