// The table of driver entry points that are wrapped: X(symbol, base name, version, suffix, handler), as in tools/host/entry_table.hpp. The
// C signature of a row is cudaTypedefs.h's PFN_<base name>_v<version><suffix>. Handlers are in handlers.hpp.
#pragma once

#define GPUHEAP_RUN_STREAM_ROWS(X, symbol, version, thread_version, handler) \
  X(symbol, symbol, version, , handler) X(symbol##_ptsz, symbol, thread_version, _ptsz, handler)

#define GPUHEAP_RUN_ENTRY_POINTS(X)                                                    \
  X(cuGetProcAddress, cuGetProcAddress, 11030, , look_up)                              \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, , look_up)                           \
  /* code */                                                                           \
  X(cuLibraryLoadData, cuLibraryLoadData, 12000, , load_library_data)                  \
  X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, , load_library_file)          \
  X(cuLibraryUnload, cuLibraryUnload, 12000, , unload_library)                         \
  X(cuModuleLoad, cuModuleLoad, 2000, , load_module_file)                              \
  X(cuModuleLoadData, cuModuleLoadData, 2000, , load_module_data)                      \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, , load_module_data)                  \
  X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, , load_module_data)            \
  X(cuModuleUnload, cuModuleUnload, 2000, , unload_module)                             \
  /* launches */                                                                       \
  GPUHEAP_RUN_STREAM_ROWS(X, cuLaunchKernel, 4000, 7000, launch_kernel)                \
  GPUHEAP_RUN_STREAM_ROWS(X, cuLaunchCooperativeKernel, 9000, 9000, launch_kernel)     \
  GPUHEAP_RUN_STREAM_ROWS(X, cuLaunchKernelEx, 11060, 11060, launch_configured)        \
  GPUHEAP_RUN_STREAM_ROWS(X, cuGraphLaunch, 10000, 10000, launch_graph)                \
  /* captures */                                                                       \
  X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, , begin_capture)             \
  X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, _ptsz, begin_capture)   \
  GPUHEAP_RUN_STREAM_ROWS(X, cuStreamBeginCaptureToGraph, 12030, 12030, begin_capture) \
  GPUHEAP_RUN_STREAM_ROWS(X, cuStreamEndCapture, 10000, 10000, end_capture)            \
  /* waits */                                                                          \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, , wait)                                  \
  X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, , wait)                              \
  GPUHEAP_RUN_STREAM_ROWS(X, cuStreamSynchronize, 2000, 7000, wait)                    \
  X(cuEventSynchronize, cuEventSynchronize, 2000, , wait)                              \
  X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, , wait)                                       \
  X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, 7000, _ptds, wait)                             \
  X(cuMemcpy, cuMemcpy, 4000, , wait)                                                  \
  X(cuMemcpy_ptds, cuMemcpy, 7000, _ptds, wait)                                        \
  /* contexts */                                                                       \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, , destroy_context)                            \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, , reset_primary)
