#include "pool_backing.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "messages.hpp"
#include "settings.hpp"

namespace gpuheap::interpose {

namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  static auto const ask = helper<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute");
  int value = 0;
  return ask != nullptr && ask(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

// Memory of an anonymous file, pinned and mapped for the device at its host address. Returns an empty backing on failure, and `why` says
// what is missing.
backing in_file(std::size_t bytes, CUdevice device, std::string* why) {
  bytes = (bytes + 4095) / 4096 * 4096;
  static auto const device_address_of = helper<PFN_cuMemHostGetDevicePointer_v3020>("cuMemHostGetDevicePointer_v2");
  if (attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) == 0) {
    *why = "the device reaches registered memory at other addresses (attribute 0)";
    return {};
  }
  int const file = memfd_create("gpuheap pool", MFD_CLOEXEC);
  void* const room = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0
                         ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
  backing const made{reinterpret_cast<std::uint64_t>(room), false, file};
  *why = "the system gives no file in memory";
  if (room != MAP_FAILED) {
    CUresult const result = real<row::cuMemHostRegister_v2>()(room, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    CUdeviceptr there = made.base;
    if (result == CUDA_SUCCESS && device_address_of != nullptr && device_address_of(&there, room, 0) == CUDA_SUCCESS && there == made.base)
      return made;
    *why = "the driver does not register the pool's memory (error " + std::to_string(static_cast<int>(result)) + ")";
    if (result == CUDA_SUCCESS) real<row::cuMemHostUnregister>()(room);
    munmap(room, bytes);
  }
  if (file >= 0) close(file);
  return {};
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
  if (configured().merge != merge_use::none && wanted.what == memory::device) {
    std::string why;
    *out = in_file(bytes, device, &why);
    if (out->file >= 0) return CUDA_SUCCESS;
    say("E08", why + ": no copies are dropped on device " + std::to_string(device));
  }
  if (mode == pool_mode::zero_copy) {
    result = real<row::cuMemHostAlloc>()(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    address = reinterpret_cast<std::uint64_t>(host);
  } else if (mode == pool_mode::unified) {
    result = real<row::cuMemAllocManaged>()(&address, bytes, CU_MEM_ATTACH_GLOBAL);
    // The pages are made resident on the device at once, as device memory is. If the driver cannot do that, each page moves at its first
    // access. During a capture the pages are not made resident, because work in the default stream and a wait for the context would
    // invalidate the capture.
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

void unmap(backing const& ended, std::uint64_t bytes) {
  munmap(reinterpret_cast<void*>(ended.base), bytes);
  close(ended.file);
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
