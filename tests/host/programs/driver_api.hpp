// The driver for the test programs, found in the way that the program is built or told to: linked, by dlsym, or by cuGetProcAddress as the
// CUDA runtime does.
#pragma once

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

struct driver_api {
  PFN_cuInit_v2000 init;
  PFN_cuDriverGetVersion_v2020 version;
  PFN_cuDeviceGetName_v2000 device_name;
  PFN_cuDeviceTotalMem_v3020 device_memory;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain;
  PFN_cuDevicePrimaryCtxReset_v11000 reset;
  PFN_cuDevicePrimaryCtxRelease_v11000 release;
  PFN_cuCtxSetCurrent_v4000 set_current;
  PFN_cuCtxCreate_v12050 create_context;
  PFN_cuGetExportTable_v3000 export_table;
  PFN_cuMemAlloc_v3020 allocate;
  PFN_cuMemAllocPitch_v3020 allocate_pitched;
  PFN_cuMemAllocManaged_v6000 allocate_managed;
  PFN_cuMemHostAlloc_v2020 allocate_pinned;
  PFN_cuMemAllocAsync_v11020 allocate_ordered;
  PFN_cuMemFree_v3020 free;
  PFN_cuMemFreeHost_v2000 free_pinned;
  PFN_cuMemFreeAsync_v11020 free_ordered;
  PFN_cuMemHostRegister_v6050 register_host;
  PFN_cuMemHostUnregister_v4000 unregister_host;
  PFN_cuMemGetInfo_v3020 free_memory;
  PFN_cuMemGetAddressRange_v3020 range;
  PFN_cuIpcGetMemHandle_v4010 share;
  PFN_cuMemcpyHtoD_v3020 to_device;
  PFN_cuMemcpyDtoH_v3020 to_host;
  PFN_cuMemcpyDtoD_v3020 on_device;
  PFN_cuMemcpyHtoDAsync_v3020 to_device_async;
  PFN_cuMemcpy_v4000 copy;
  PFN_cuMemcpyBatchAsync_v13000 copy_batch;
  PFN_cuMemcpy2D_v3020 copy_rectangle;
  PFN_cuMemsetD8_v3020 set;
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleGetFunction_v2000 function;
  PFN_cuModuleGetGlobal_v3020 variable;
  PFN_cuLaunchKernel_v4000 launch;
  PFN_cuStreamCreate_v2000 make_stream;
  PFN_cuStreamSynchronize_v2000 synchronise_stream;
  PFN_cuStreamBeginCapture_v10010 begin_capture;
  PFN_cuStreamEndCapture_v10000 end_capture;
  PFN_cuCtxSynchronize_v2000 synchronise;
};

// The one list of the members: member, base name, symbol, version.
#define DRIVER_API(X)                                                        \
  X(init, cuInit, cuInit, 2000)                                              \
  X(version, cuDriverGetVersion, cuDriverGetVersion, 2020)                   \
  X(device_name, cuDeviceGetName, cuDeviceGetName, 2000)                     \
  X(device_memory, cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020)              \
  X(retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)        \
  X(reset, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000)       \
  X(release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000) \
  X(set_current, cuCtxSetCurrent, cuCtxSetCurrent, 4000)                     \
  X(create_context, cuCtxCreate, cuCtxCreate_v4, 12050)                      \
  X(export_table, cuGetExportTable, cuGetExportTable, 3000)                  \
  X(allocate, cuMemAlloc, cuMemAlloc_v2, 3020)                               \
  X(allocate_pitched, cuMemAllocPitch, cuMemAllocPitch_v2, 3020)             \
  X(allocate_managed, cuMemAllocManaged, cuMemAllocManaged, 6000)            \
  X(allocate_pinned, cuMemHostAlloc, cuMemHostAlloc, 2020)                   \
  X(allocate_ordered, cuMemAllocAsync, cuMemAllocAsync, 11020)               \
  X(free, cuMemFree, cuMemFree_v2, 3020)                                     \
  X(free_pinned, cuMemFreeHost, cuMemFreeHost, 2000)                         \
  X(free_ordered, cuMemFreeAsync, cuMemFreeAsync, 11020)                     \
  X(register_host, cuMemHostRegister, cuMemHostRegister_v2, 6050)            \
  X(unregister_host, cuMemHostUnregister, cuMemHostUnregister, 4000)         \
  X(free_memory, cuMemGetInfo, cuMemGetInfo_v2, 3020)                        \
  X(range, cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020)              \
  X(share, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010)                       \
  X(to_device, cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020)                          \
  X(to_host, cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020)                            \
  X(on_device, cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020)                          \
  X(to_device_async, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020)          \
  X(copy, cuMemcpy, cuMemcpy, 4000)                                          \
  X(copy_batch, cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000)            \
  X(copy_rectangle, cuMemcpy2D, cuMemcpy2D_v2, 3020)                         \
  X(set, cuMemsetD8, cuMemsetD8_v2, 3020)                                    \
  X(load, cuModuleLoadData, cuModuleLoadData, 2000)                          \
  X(function, cuModuleGetFunction, cuModuleGetFunction, 2000)                \
  X(variable, cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020)                 \
  X(launch, cuLaunchKernel, cuLaunchKernel, 4000)                            \
  X(make_stream, cuStreamCreate, cuStreamCreate, 2000)                       \
  X(synchronise_stream, cuStreamSynchronize, cuStreamSynchronize, 2000)      \
  X(begin_capture, cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010)     \
  X(end_capture, cuStreamEndCapture, cuStreamEndCapture, 10000)              \
  X(synchronise, cuCtxSynchronize, cuCtxSynchronize, 2000)

template <class Function>
void assign(Function& member, void* address, char const* name) {
  if (address == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(1);
  }
  member = reinterpret_cast<Function>(address);
}

// `way`: dlsym; per-thread (look-ups for per-thread default streams); or any other: look-ups.
inline driver_api find_driver(char const* way) {
  driver_api api{};
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  if (std::strcmp(way, "dlsym") == 0) {
#define FIND(member, base, symbol, version) assign(api.member, dlsym(library, #symbol), #symbol);
    DRIVER_API(FIND)
#undef FIND
    return api;
  }
  auto const look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  bool const per_thread = std::strcmp(way, "per-thread") == 0;
  cuuint64_t const flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  void* found = nullptr;
#define FIND(member, base, symbol, version)                                             \
  look_up(#base, &found, per_thread&& version < 7000 ? 7000 : version, flags, nullptr); \
  assign(api.member, found, #base);
  DRIVER_API(FIND)
#undef FIND
  return api;
}
