// Selects the backend that runs device code, and defines the macros that mark functions as device code.
//
// GPUHEAP_BACKEND_CUDA selects a GPU, GPUHEAP_BACKEND_HOST the simulator. The CMake targets gpuheap::gpuheap and gpuheap::simulated each
// define one of the two. If neither is defined, compilers of CUDA (nvcc, NVRTC, clang) select the GPU.
// Every name of the library lives in an inline namespace of its backend, so object files of the two backends cannot be linked into one
// program by mistake.
#pragma once

#if !defined(GPUHEAP_BACKEND_CUDA) && !defined(GPUHEAP_BACKEND_HOST) && (defined(__CUDACC__) || defined(__CUDA__))
#define GPUHEAP_BACKEND_CUDA
#endif

// nvcc and NVRTC stop at #error. Other compilers would go on, and report further errors that follow from the first one. So the include of a
// missing file below stops these compilers.
#if __cplusplus < 202002L
#error \
    "gpuheap needs C++20: compile with -std=c++20, or in a CMake project set CMAKE_CXX_STANDARD to 20, and for .cu files CMAKE_CUDA_STANDARD"
#define GPUHEAP_REFUSED
#elif defined(GPUHEAP_BACKEND_CUDA) && defined(GPUHEAP_BACKEND_HOST)
#error \
    "gpuheap: GPUHEAP_BACKEND_CUDA and GPUHEAP_BACKEND_HOST are both defined: link gpuheap::gpuheap (CUDA) or gpuheap::simulated, not both"
#define GPUHEAP_REFUSED
#elif !defined(GPUHEAP_BACKEND_CUDA) && !defined(GPUHEAP_BACKEND_HOST)
#error \
    "gpuheap: this compiler is not one of CUDA, so it must be told where device code runs: link gpuheap::gpuheap (-DGPUHEAP_BACKEND_CUDA) or gpuheap::simulated (-DGPUHEAP_BACKEND_HOST)"
#define GPUHEAP_REFUSED
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750
#error "gpuheap needs compute capability 7.5 or newer: compile with -arch=sm_75, or the number of your GPU"
#define GPUHEAP_REFUSED
#endif
#if defined(GPUHEAP_REFUSED) && (!defined(__CUDACC__) || defined(__clang__))
#include <gpuheap/simt/see_the_error_above>
#endif

// A build may define the namespace's name itself. A program that contains the library compiled in two ways needs two names.
#if defined(GPUHEAP_BACKEND_NAMESPACE)
#elif defined(GPUHEAP_BACKEND_CUDA)
#define GPUHEAP_BACKEND_NAMESPACE on_cuda
#else
#define GPUHEAP_BACKEND_NAMESPACE on_host
#endif

// GPUHEAP_FN: runs on the device. GPUHEAP_HD: runs on either side. GPUHEAP_COLD: a device function that is never inlined, so that its
// registers and its stack frame do not burden the fast path that calls it.
#if defined(__CUDACC__)
#define GPUHEAP_FN __device__
#define GPUHEAP_HD __host__ __device__
#define GPUHEAP_COLD __device__ __attribute__((noinline))
#else
#define GPUHEAP_FN
#define GPUHEAP_HD
#define GPUHEAP_COLD [[gnu::noinline, gnu::cold]]
#endif

// 1 while a compiler of CUDA makes device code, otherwise 0. The macro guards definitions that only the host or only the device may have,
// such as a function that replaces one of CUDA's.
#if defined(__CUDA_ARCH__)
#define GPUHEAP_DEVICE_PASS 1
#else
#define GPUHEAP_DEVICE_PASS 0
#endif

// Keeps the compiler from unrolling a loop of a slow path. Unrolling would cost instruction fetches and compile time, and gain nothing.
#if defined(__CUDA_ARCH__)
#define GPUHEAP_NO_UNROLL _Pragma("unroll 1")
#else
#define GPUHEAP_NO_UNROLL
#endif

// NVRTC compiles device code only: host declarations are hidden from it.
#if !defined(__CUDACC_RTC__)
#define GPUHEAP_HAS_HOST 1
#else
#define GPUHEAP_HAS_HOST 0
#endif
