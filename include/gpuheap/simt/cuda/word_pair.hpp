// The CUDA backend of word_pair.hpp: each load or store is one instruction of 16 bytes.
#pragma once

#include <gpuheap/simt/cuda/atomic.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

struct word_pair {
  uint64_t first = 0, second = 0;
};
[[nodiscard]] GPUHEAP_FN inline word_pair load_pair(uint64_t* at) {
#if defined(__CUDA_ARCH__)
  unsigned long long a, b;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(__cvta_generic_to_global(at)) : "memory");
  return {a, b};
#else
  return {at[0], at[1]};
#endif
}
GPUHEAP_FN inline void store_pair(uint64_t* at, word_pair pair) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)),
               "l"(static_cast<unsigned long long>(pair.first)), "l"(static_cast<unsigned long long>(pair.second))
               : "memory");
#else
  at[0] = pair.first;
  at[1] = pair.second;
#endif
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
