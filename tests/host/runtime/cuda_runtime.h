// The CUDA runtime as far as the programs of benchmarks/programs/ use it, on the driver double: each call reaches the driver as the real
// one does, and kernels are functions of this program, run on the CPU. g++ compiles a program against it after sed made `launched(kernel,
// "kernel", grid, block)(arguments)` of `kernel<<<grid, block>>>(arguments)`.
//
// The threads of a block run one after the other, each until it ends or meets __syncthreads(), which all of a block must meet.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/host/double/module_image.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline uint3 threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads();

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
using cudaEvent_t = struct runtime_event*;
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};

cudaError_t runtime_allocate(void** out, std::size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** out, std::size_t bytes) {
  return runtime_allocate(reinterpret_cast<void**>(out), bytes);
}
cudaError_t cudaFree(void* address);
inline constexpr unsigned cudaHostAllocMapped = 2;
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaMallocManaged(void** out, std::size_t bytes);
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t runtime_copy_to_symbol(void* symbol, std::size_t room, void const* from, std::size_t bytes);
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, void const* from, std::size_t bytes) {
  return runtime_copy_to_symbol(&symbol, sizeof symbol, from, bytes);
}
cudaError_t cudaGetLastError();
cudaError_t cudaDeviceSynchronize();
char const* cudaGetErrorString(cudaError_t error);
cudaError_t cudaDriverGetVersion(int* out);
cudaError_t cudaRuntimeGetVersion(int* out);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device);
// Events are times of the CPU.
cudaError_t cudaEventCreate(cudaEvent_t* out);
cudaError_t cudaEventRecord(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* out_ms, cudaEvent_t begin, cudaEvent_t end);

// Runs `call(argument)` once for each thread of the shape.
void runtime_run(driver_double::launch_shape const& shape, void (*call)(void const* argument), void const* argument);
void runtime_launch(void const* kernel, char const* name, void (*run)(void const*, driver_double::launch_shape const&, void**), dim3 grid,
                    dim3 block, void** parameters);

template <class... Parameters>
class launched_kernel {
 public:
  launched_kernel(void (*kernel)(Parameters...), char const* name, dim3 grid, dim3 block)
      : kernel_(kernel), name_(name), grid_(grid), block_(block) {}

  void operator()(Parameters... parameters) const {
    void* addresses[sizeof...(Parameters) + 1] = {const_cast<void*>(static_cast<void const*>(&parameters))..., nullptr};
    runtime_launch(reinterpret_cast<void const*>(kernel_), name_, run, grid_, block_, addresses);
  }

 private:
  static void run(void const* kernel, driver_double::launch_shape const& shape, void** parameters) {
    run_each(kernel, shape, parameters, std::index_sequence_for<Parameters...>{});
  }
  template <std::size_t... I>
  static void run_each(void const* kernel, driver_double::launch_shape const& shape, void** parameters, std::index_sequence<I...>) {
    auto const each = [kernel, parameters] {
      reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel))(*static_cast<Parameters*>(parameters[I])...);
    };
    runtime_run(
        shape, [](void const* call) { (*static_cast<decltype(each)*>(call))(); }, &each);
  }

  void (*kernel_)(Parameters...);
  char const* name_;
  dim3 grid_, block_;
};

template <class... Parameters>
launched_kernel<Parameters...> launched(void (*kernel)(Parameters...), char const* name, dim3 grid, dim3 block) {
  return {kernel, name, grid, block};
}
