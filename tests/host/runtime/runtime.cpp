// The calls of cuda_runtime.h, by the driver.

#include <cuda_runtime.h>

#include <chrono>
#include <map>
#include <memory>

#include "tests/host/programs/driver_api.hpp"

struct runtime_event {
  std::chrono::steady_clock::time_point at;
};

namespace {

CUresult last = CUDA_SUCCESS;

// The first call finds the driver and makes the device's primary context current.
driver_api const& driver() {
  static driver_api const found = [] {
    driver_api const api = find_driver("lookup");
    CUcontext context = nullptr;
    if (api.init(0) != CUDA_SUCCESS || api.retain(&context, 0) != CUDA_SUCCESS || api.set_current(context) != CUDA_SUCCESS) {
      std::fprintf(stderr, "the driver double does not start\n");
      std::exit(1);
    }
    return api;
  }();
  return found;
}

cudaError_t told(CUresult result) {
  if (result != CUDA_SUCCESS) last = result;
  return static_cast<cudaError_t>(result);
}

// The module of each kernel and variable, loaded when it is first used.
CUmodule module_of(void const* what, driver_double::module_image const& image) {
  struct loaded {
    driver_double::module_image image;
    CUmodule module;
  };
  static std::map<void const*, std::unique_ptr<loaded>> all;
  std::unique_ptr<loaded>& found = all[what];
  if (found == nullptr) {
    found = std::make_unique<loaded>(loaded{image, nullptr});
    std::memcpy(found->image.mark, driver_double::module_mark, sizeof driver_double::module_mark);
    told(driver().load(&found->module, &found->image));
  }
  return found->module;
}

CUfunction function_of(void const* kernel, driver_double::module_image const& image) {
  static std::map<void const*, CUfunction> all;
  CUfunction& found = all[kernel];
  if (found == nullptr) told(driver().function(&found, module_of(kernel, image), image.name));
  return found;
}

}  // namespace

cudaError_t runtime_allocate(void** out, std::size_t bytes) {
  CUdeviceptr made = 0;
  CUresult const result = driver().allocate(&made, bytes);
  *out = reinterpret_cast<void*>(made);
  return told(result);
}

cudaError_t cudaFree(void* address) { return told(driver().free(reinterpret_cast<CUdeviceptr>(address))); }

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags) { return told(driver().allocate_pinned(out, bytes, flags)); }
cudaError_t cudaFreeHost(void* address) { return told(driver().free_pinned(address)); }

cudaError_t cudaMallocManaged(void** out, std::size_t bytes) {
  CUdeviceptr made = 0;
  CUresult const result = driver().allocate_managed(&made, bytes, CU_MEM_ATTACH_GLOBAL);
  *out = reinterpret_cast<void*>(made);
  return told(result);
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return told(kind == cudaMemcpyHostToDevice ? driver().to_device(reinterpret_cast<CUdeviceptr>(to), from, bytes)
                                             : driver().to_host(to, reinterpret_cast<CUdeviceptr>(from), bytes));
}

cudaError_t runtime_copy_to_symbol(void* symbol, std::size_t room, void const* from, std::size_t bytes) {
  if (bytes > room) return told(CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr at = 0;
  std::size_t size = 0;
  CUresult const result = driver().variable(&at, &size, module_of(symbol, {{}, "variable", nullptr, nullptr, symbol, room}), "variable");
  return told(result != CUDA_SUCCESS ? result : driver().to_device(at, from, bytes));
}

void runtime_launch(void const* kernel, char const* name, void (*run)(void const*, driver_double::launch_shape const&, void**), dim3 grid,
                    dim3 block, void** parameters) {
  CUfunction const function = function_of(kernel, {{}, name, run, kernel, nullptr, 0});
  told(driver().launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, nullptr, parameters, nullptr));
}

cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(std::exchange(last, CUDA_SUCCESS)); }
cudaError_t cudaDeviceSynchronize() { return told(driver().synchronise()); }
char const* cudaGetErrorString(cudaError_t error) {
  static char words[32];
  std::snprintf(words, sizeof words, "driver error %d", static_cast<int>(error));
  return words;
}
cudaError_t cudaDriverGetVersion(int* out) { return told(driver().version(out)); }
cudaError_t cudaRuntimeGetVersion(int* out) {
  *out = CUDA_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  *out = {};
  CUresult const result = driver().device_name(out->name, sizeof out->name, device);
  return told(result != CUDA_SUCCESS ? result : driver().device_memory(&out->totalGlobalMem, device));
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  *out = new runtime_event{};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event) {
  event->at = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* out_ms, cudaEvent_t begin, cudaEvent_t end) {
  *out_ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}
