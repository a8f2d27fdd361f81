// The table of driver entry points that are wrapped: X(symbol, base name, version, suffix, handler).
//
// The C signature is cudaTypedefs.h's PFN_<base name>_v<version><suffix>, so that a row cannot disagree with the driver's headers.
// `version` is the version with which a program asks cuGetProcAddress for this function. The suffix _ptds or _ptsz marks the form for
// per-thread default streams. Handlers are in handlers.hpp and transfer_handlers.hpp. The 32-bit functions of CUDA 2 (cuMemAlloc without
// _v2, ...) are not wrapped: no 64-bit program has them.
#pragma once

// Both forms of a function whose stream may be the default one. The form for per-thread default streams has a version of its own.
#define GPUHEAP_STREAM_ROWS(X, symbol, base, version, thread_version, suffix, handler) \
  X(symbol, base, version, , handler) X(symbol##suffix, base, thread_version, suffix, handler)

#define GPUHEAP_ENTRY_POINTS(X)                                                                                        \
  X(cuGetProcAddress, cuGetProcAddress, 11030, , look_up)                                                              \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, , look_up)                                                           \
  /* memory */                                                                                                         \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, , allocate_device)                                                                \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, , allocate_pitched)                                                     \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, , allocate_managed)                                                    \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020, , allocate_pinned)                                                           \
  X(cuMemAllocHost_v2, cuMemAllocHost, 3020, , allocate_pinned)                                                        \
  X(cuMemFree_v2, cuMemFree, 3020, , free_device)                                                                      \
  X(cuMemFreeHost, cuMemFreeHost, 2000, , free_pinned)                                                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemAllocAsync, cuMemAllocAsync, 11020, 11020, _ptsz, allocate_ordered)                      \
  GPUHEAP_STREAM_ROWS(X, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 11020, _ptsz, allocate_ordered)      \
  GPUHEAP_STREAM_ROWS(X, cuMemFreeAsync, cuMemFreeAsync, 11020, 11020, _ptsz, free_ordered)                            \
  X(cuMemHostRegister_v2, cuMemHostRegister, 6050, , register_host)                                                    \
  X(cuMemHostUnregister, cuMemHostUnregister, 4000, , unregister_host)                                                 \
  X(cuArrayCreate_v2, cuArrayCreate, 3020, , create_array)                                                             \
  X(cuArray3DCreate_v2, cuArray3DCreate, 3020, , create_array)                                                         \
  X(cuArrayDestroy, cuArrayDestroy, 2000, , destroy_array)                                                             \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, , create_array)                                              \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, , destroy_array)                                           \
  X(cuMemCreate, cuMemCreate, 10020, , create_physical)                                                                \
  X(cuMemRelease, cuMemRelease, 10020, , release_physical)                                                             \
  X(cuMemAddressReserve, cuMemAddressReserve, 10020, , logged)                                                         \
  X(cuMemAddressFree, cuMemAddressFree, 10020, , logged)                                                               \
  X(cuMemMap, cuMemMap, 10020, , logged)                                                                               \
  X(cuMemUnmap, cuMemUnmap, 10020, , logged)                                                                           \
  X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, , logged)                                                           \
  X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, , logged)                                                           \
  /* what a program asks about memory */                                                                               \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, , query_free_memory)                                                          \
  X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, , query_range)                                                \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, , query_pointer)                                               \
  X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, , query_pointer)                                             \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, , export_memory)                                                       \
  X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, , import_memory)                                                 \
  X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, , close_imported)                                                  \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, , logged)                                       \
  /* copies */                                                                                                         \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy, cuMemcpy, 4000, 7000, _ptds, copy_any)                                              \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyAsync, cuMemcpyAsync, 4000, 7000, _ptsz, copy_any)                                    \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, 7000, _ptds, copy_to_device)                             \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, 7000, _ptsz, copy_to_device)                   \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, 7000, _ptds, copy_to_host)                               \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, 7000, _ptsz, copy_to_host)                     \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, 7000, _ptds, copy_on_device)                             \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, 7000, _ptsz, copy_on_device)                   \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyPeer, cuMemcpyPeer, 4000, 7000, _ptds, copy_peer)                                     \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, 7000, _ptsz, copy_peer)                           \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyHtoA_v2, cuMemcpyHtoA, 3020, 7000, _ptds, copy_to_array)                              \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020, 7000, _ptsz, copy_to_array)                    \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, 7000, _ptds, copy_to_array)                              \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyAtoH_v2, cuMemcpyAtoH, 3020, 7000, _ptds, copy_from_array)                            \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020, 7000, _ptsz, copy_from_array)                  \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, 7000, _ptds, copy_from_array)                            \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyAtoA_v2, cuMemcpyAtoA, 3020, 7000, _ptds, copy_from_array)                            \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy2D_v2, cuMemcpy2D, 3020, 7000, _ptds, copy_described)                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, 7000, _ptds, copy_described)               \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, 7000, _ptsz, copy_described)                       \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3D_v2, cuMemcpy3D, 3020, 7000, _ptds, copy_described)                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, 7000, _ptsz, copy_described)                       \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, 7000, _ptds, copy_described)                            \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, 7000, _ptsz, copy_described)                  \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, 12080, _ptsz, copy_batch)                      \
  GPUHEAP_STREAM_ROWS(X, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, 13000, _ptsz, copy_batch)                   \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, 12080, _ptsz, logged_work)                 \
  GPUHEAP_STREAM_ROWS(X, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, 13000, _ptsz, logged_work)              \
  /* sets */                                                                                                           \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD8_v2, cuMemsetD8, 3020, 7000, _ptds, set_row)                                        \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD16_v2, cuMemsetD16, 3020, 7000, _ptds, set_row)                                      \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD32_v2, cuMemsetD32, 3020, 7000, _ptds, set_row)                                      \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD8Async, cuMemsetD8Async, 3020, 7000, _ptsz, set_row)                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD16Async, cuMemsetD16Async, 3020, 7000, _ptsz, set_row)                               \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD32Async, cuMemsetD32Async, 3020, 7000, _ptsz, set_row)                               \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D8_v2, cuMemsetD2D8, 3020, 7000, _ptds, set_rows)                                   \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D16_v2, cuMemsetD2D16, 3020, 7000, _ptds, set_rows)                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D32_v2, cuMemsetD2D32, 3020, 7000, _ptds, set_rows)                                 \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, 7000, _ptsz, set_rows)                            \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, 7000, _ptsz, set_rows)                          \
  GPUHEAP_STREAM_ROWS(X, cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, 7000, _ptsz, set_rows)                          \
  /* hints */                                                                                                          \
  GPUHEAP_STREAM_ROWS(X, cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, 8000, _ptsz, logged_work)                       \
  GPUHEAP_STREAM_ROWS(X, cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, 12020, _ptsz, logged_work)                  \
  X(cuMemAdvise, cuMemAdvise, 8000, , logged)                                                                          \
  X(cuMemAdvise_v2, cuMemAdvise, 12020, , logged)                                                                      \
  /* kernels */                                                                                                        \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000, , name_kernel)                                                     \
  X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, , name_kernel)                                                      \
  GPUHEAP_STREAM_ROWS(X, cuLaunchKernel, cuLaunchKernel, 4000, 7000, _ptsz, launch)                                    \
  GPUHEAP_STREAM_ROWS(X, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, 9000, _ptsz, launch)              \
  GPUHEAP_STREAM_ROWS(X, cuLaunchKernelEx, cuLaunchKernelEx, 11060, 11060, _ptsz, launch)                              \
  GPUHEAP_STREAM_ROWS(X, cuGraphLaunch, cuGraphLaunch, 10000, 10000, _ptsz, logged_work)                               \
  GPUHEAP_STREAM_ROWS(X, cuLaunchHostFunc, cuLaunchHostFunc, 10000, 10000, _ptsz, logged_work)                         \
  GPUHEAP_STREAM_ROWS(X, cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, 11070, _ptsz, logged_work)              \
  GPUHEAP_STREAM_ROWS(X, cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, 11070, _ptsz, logged_work)              \
  GPUHEAP_STREAM_ROWS(X, cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, 11070, _ptsz, logged_work)                  \
  /* order */                                                                                                          \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, , synchronise)                                                           \
  X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, , synchronise)                                                       \
  GPUHEAP_STREAM_ROWS(X, cuStreamSynchronize, cuStreamSynchronize, 2000, 7000, _ptsz, synchronise)                     \
  X(cuEventSynchronize, cuEventSynchronize, 2000, , synchronise)                                                       \
  GPUHEAP_STREAM_ROWS(X, cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, 10010, _ptsz, begin_capture)            \
  GPUHEAP_STREAM_ROWS(X, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, 12030, _ptsz, begin_capture) \
  GPUHEAP_STREAM_ROWS(X, cuStreamEndCapture, cuStreamEndCapture, 10000, 10000, _ptsz, end_capture)                     \
  /* life */                                                                                                           \
  X(cuCtxCreate_v2, cuCtxCreate, 3020, , make_context)                                                                 \
  X(cuCtxCreate_v3, cuCtxCreate, 11040, , make_context)                                                                \
  X(cuCtxCreate_v4, cuCtxCreate, 12050, , make_context)                                                                \
  X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, , use_context)                                                             \
  X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, , use_context)                                                        \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, , destroy_context)                                                            \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, , retain_primary)                                        \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, , release_primary)                                 \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, , reset_primary)
