// Which machine this program runs its device code on, and how a function says that it is device code.
//
// A build defines exactly one of GPUHEAP_BACKEND_CUDA and GPUHEAP_BACKEND_HOST (the CMake targets gpuheap::gpuheap and
// gpuheap::simulated do it). Every name of the library lives in an inline namespace of that backend, so objects of the two
// cannot be linked into one program by mistake.
#pragma once

#if defined(GPUHEAP_BACKEND_CUDA) == defined(GPUHEAP_BACKEND_HOST)
#error "define exactly one of GPUHEAP_BACKEND_CUDA and GPUHEAP_BACKEND_HOST: link gpuheap::gpuheap or gpuheap::simulated"
#endif

#if defined(GPUHEAP_BACKEND_CUDA)
#define GPUHEAP_BACKEND_NAMESPACE on_cuda
#else
#define GPUHEAP_BACKEND_NAMESPACE on_host
#endif

// GPUHEAP_FN: runs on the device. GPUHEAP_HD: runs on either side. GPUHEAP_COLD: a device function kept out of line, so that
// its registers and its frame do not burden the fast path that calls it.
#if defined(__CUDACC__)
#define GPUHEAP_FN __device__
#define GPUHEAP_HD __host__ __device__
#define GPUHEAP_COLD __device__ __attribute__((noinline))
#else
#define GPUHEAP_FN
#define GPUHEAP_HD
#define GPUHEAP_COLD [[gnu::noinline, gnu::cold]]
#endif

// Retry loops of slow paths: unrolling them costs instruction fetches and compile time, and gains nothing.
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
