// The CUDA backend of scan.hpp: CUB's device-wide scan. The file defines nothing for compilers other than nvcc.
#pragma once

#include <gpuheap/simt/cuda/runtime.hpp>

#if defined(__NVCC__)
#include <cub/device/device_scan.cuh>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Bytes of working memory that exclusive_scan() of `count` elements needs.
[[nodiscard]] inline size_t exclusive_scan_bytes(size_t count) {
  size_t bytes = 0;
  uint64_t const* const values = nullptr;
  uint64_t* const sums = nullptr;
  detail::check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, values, sums, static_cast<::cuda::std::int64_t>(count)),
                "asking what a scan needs");
  return bytes;
}

// Sets sums[i] to the sum of values[0] .. values[i - 1], for each i < count, in stream order. All three arrays lie in device memory. `work`
// has exclusive_scan_bytes(count) bytes.
inline void exclusive_scan(void* work, size_t work_bytes, uint64_t const* values, uint64_t* sums, size_t count, stream_ref stream) {
  detail::check(cub::DeviceScan::ExclusiveSum(work, work_bytes, values, sums, static_cast<::cuda::std::int64_t>(count),
                                              static_cast<cudaStream_t>(stream.native)),
                "scanning");
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
#endif
