// The host backend of scan.hpp: a loop.
#pragma once

#include <gpuheap/simt/host/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Bytes that exclusive_scan() of `count` elements needs to work in.
[[nodiscard]] inline size_t exclusive_scan_bytes(size_t) { return 1; }

// sums[i] = the sum of values[0..i), for each i < count. `work`: so many bytes as exclusive_scan_bytes(count) says. In stream order.
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
