// The CUDA backend of scan.hpp: CUB's device-wide scan. Nothing for compilers that cannot compile it.
#pragma once

#include <gpuheap/simt/cuda/runtime.hpp>

#if defined(__NVCC__)
#include <cub/device/device_scan.cuh>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// Bytes that exclusive_scan() of `count` elements needs to work in.
[[nodiscard]] inline size_t exclusive_scan_bytes(size_t count) {
  size_t bytes = 0;
  uint64_t const* const values = nullptr;
  uint64_t* const sums = nullptr;
  detail::check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, values, sums, static_cast<::cuda::std::int64_t>(count)),
                "asking what a scan needs");
  return bytes;
}

// sums[i] = the sum of values[0..i), for each i < count. `work`: so many bytes as exclusive_scan_bytes(count) says. In stream order.
inline void exclusive_scan(void* work, size_t work_bytes, uint64_t const* values, uint64_t* sums, size_t count, stream_ref stream) {
  detail::check(cub::DeviceScan::ExclusiveSum(work, work_bytes, values, sums, static_cast<::cuda::std::int64_t>(count),
                                              static_cast<cudaStream_t>(stream.native)),
                "scanning");
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
#endif
