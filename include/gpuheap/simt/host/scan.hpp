// The host backend of scan.hpp: a loop on the host.
#pragma once

#include <gpuheap/simt/host/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Bytes of working memory for exclusive_scan(). It needs none on the host. The result is 1, because allocate() does not accept 0.
[[nodiscard]] inline size_t exclusive_scan_bytes(size_t) { return 1; }

// Sets sums[i] to the sum of values[0] .. values[i - 1], for each i < count.
inline void exclusive_scan(void*, size_t, uint64_t const* values, uint64_t* sums, size_t count, stream_ref) {
  detail::may_fail("scanning");
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t const value = values[i];
    sums[i] = sum;
    sum += value;
  }
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
