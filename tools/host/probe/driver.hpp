// The driver functions that the probe calls, found in libcuda.so.1 at run time.
#pragma once

#include <cudaTypedefs.h>

#include <string>

namespace gpuheap::probe {

// Functions that every driver has: member, symbol, type.
#define GPUHEAP_PROBE_DRIVER(X)                                           \
  X(init, cuInit, PFN_cuInit_v2000)                                       \
  X(version, cuDriverGetVersion, PFN_cuDriverGetVersion_v2020)            \
  X(device, cuDeviceGet, PFN_cuDeviceGet_v2000)                           \
  X(name, cuDeviceGetName, PFN_cuDeviceGetName_v2000)                     \
  X(total, cuDeviceTotalMem_v2, PFN_cuDeviceTotalMem_v3020)               \
  X(attribute, cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000)      \
  X(retain, cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000) \
  X(use, cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)                      \
  X(synchronise, cuCtxSynchronize, PFN_cuCtxSynchronize_v2000)            \
  X(free_memory, cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020)                 \
  X(allocate, cuMemAlloc_v2, PFN_cuMemAlloc_v3020)                        \
  X(allocate_managed, cuMemAllocManaged, PFN_cuMemAllocManaged_v6000)     \
  X(allocate_pinned, cuMemHostAlloc, PFN_cuMemHostAlloc_v2020)            \
  X(release, cuMemFree_v2, PFN_cuMemFree_v3020)                           \
  X(release_pinned, cuMemFreeHost, PFN_cuMemFreeHost_v2000)               \
  X(set, cuMemsetD8_v2, PFN_cuMemsetD8_v3020)                             \
  X(to_host, cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)                     \
  X(load, cuModuleLoadData, PFN_cuModuleLoadData_v2000)                   \
  X(function, cuModuleGetFunction, PFN_cuModuleGetFunction_v2000)         \
  X(launch, cuLaunchKernel, PFN_cuLaunchKernel_v4000)                     \
  X(make_stream, cuStreamCreate, PFN_cuStreamCreate_v2000)                \
  X(synchronise_stream, cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)

// Functions that some drivers do not have. The member is then nullptr.
#define GPUHEAP_PROBE_OPTIONAL(X)                                  \
  X(allocate_ordered, cuMemAllocAsync, PFN_cuMemAllocAsync_v11020) \
  X(release_ordered, cuMemFreeAsync, PFN_cuMemFreeAsync_v11020)    \
  X(set_limit, cuCtxSetLimit, PFN_cuCtxSetLimit_v3010)

struct driver_api {
#define GPUHEAP_MEMBER(member, symbol, type) type member = nullptr;
  GPUHEAP_PROBE_DRIVER(GPUHEAP_MEMBER)
  GPUHEAP_PROBE_OPTIONAL(GPUHEAP_MEMBER)
#undef GPUHEAP_MEMBER
};

// A driver call that failed: the call, and the driver's error number.
struct failure {
  std::string what;
  int code;
};

// Throws failure unless `result` is CUDA_SUCCESS.
void check(CUresult result, char const* what);

// Throws std::runtime_error, whose text says what is missing.
driver_api open_driver();

}  // namespace gpuheap::probe
