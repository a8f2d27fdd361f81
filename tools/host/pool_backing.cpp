#include "pool_backing.hpp"

#include "settings.hpp"

namespace gpuheap::interpose {

namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  static auto const ask = helper<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute");
  int value = 0;
  return ask != nullptr && ask(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

CUcontext current_context() {
  static auto const ask = helper<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return ask != nullptr && ask(&context) == CUDA_SUCCESS ? context : nullptr;
}

bool untimely(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return true;
    default:
      return false;
  }
}

std::string unsupported(CUdevice device) {
  if (configured().mode == pool_mode::zero_copy) {
    if (attribute(device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) == 0)
      return "zero-copy needs a device that maps host memory (attribute 0)";
    if (attribute(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 0) return "zero-copy needs unified addressing (attribute 0)";
  }
  if (configured().mode == pool_mode::unified) {
    if (attribute(device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0) return "unified needs managed memory (attribute 0)";
    if (attribute(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0) {
      return "unified needs concurrent managed access (attribute 0): the host must not touch managed memory while a kernel runs here";
    }
  }
  return {};
}

CUresult reserve(planned_pool const& wanted, CUdevice device, bool capturing, backing* out) {
  std::size_t const bytes = wanted.bytes;
  CUdeviceptr address = 0;
  void* host = nullptr;
  pool_mode const mode = wanted.what == memory::pinned    ? pool_mode::zero_copy
                         : wanted.what == memory::managed ? pool_mode::unified
                                                          : configured().mode;
  CUresult result = CUDA_SUCCESS;
  if (mode == pool_mode::zero_copy) {
    result = real<row::cuMemHostAlloc>()(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    address = reinterpret_cast<std::uint64_t>(host);
  } else if (mode == pool_mode::unified) {
    result = real<row::cuMemAllocManaged>()(&address, bytes, CU_MEM_ATTACH_GLOBAL);
    // Present on the device from the start, as what it stands for is. Where the driver cannot, pages come at first touch; also during a
    // capture, which the default stream and a wait for the context would break.
    if (result == CUDA_SUCCESS && wanted.what == memory::device && !capturing) {
      CUmemLocation const there{CU_MEM_LOCATION_TYPE_DEVICE, {device}};
      auto const prefetch = real<row::cuMemPrefetchAsync_v2>();
      if (prefetch != nullptr && prefetch(address, bytes, there, 0, nullptr) == CUDA_SUCCESS) real<row::cuCtxSynchronize>()();
    }
  } else {
    result = real<row::cuMemAlloc_v2>()(&address, bytes);
  }
  *out = {address, mode != pool_mode::zero_copy};
  return result;
}

in_context::in_context(CUcontext of) {
  if (current_context() == of) return;
  entered_ = real<row::cuCtxPushCurrent_v2>()(of);
  pushed_ = entered_ == CUDA_SUCCESS;
}

in_context::~in_context() {
  static auto const pop = helper<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent_v2");
  CUcontext popped = nullptr;
  if (pushed_ && pop != nullptr) pop(&popped);
}

namespace {

void exchange_capture_mode(CUstreamCaptureMode* mode) {
  static auto const exchange = helper<PFN_cuThreadExchangeStreamCaptureMode_v10010>("cuThreadExchangeStreamCaptureMode");
  if (exchange != nullptr) exchange(mode);
}

}  // namespace

apart_from_captures::apart_from_captures() { exchange_capture_mode(&mode_); }
apart_from_captures::~apart_from_captures() { exchange_capture_mode(&mode_); }

}  // namespace gpuheap::interpose
