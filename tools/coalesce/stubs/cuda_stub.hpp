// The declarations that CUDA programs get if no toolkit is found: enough to parse kernels.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))  // Clang knows managed variables for HIP only
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __restrict__ __restrict

using size_t = decltype(sizeof(0));

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
extern const __device__ int warpSize;

using cudaStream_t = struct CUstream_st*;
using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
extern "C" {
cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = nullptr);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, cudaStream_t = nullptr);
cudaError_t cudaLaunchKernel(void const*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaMallocManaged(void**, size_t, unsigned = 1);
cudaError_t cudaMemcpy(void*, void const*, size_t, cudaMemcpyKind);
cudaError_t cudaFree(void*);
__device__ void* malloc(size_t);
__device__ void* calloc(size_t, size_t);
__device__ void free(void*);
__device__ void* __nv_aligned_device_malloc(size_t, size_t);
__device__ int printf(char const*, ...);
}

__device__ void* operator new(size_t);
__device__ void* operator new[](size_t);
__device__ void operator delete(void*) noexcept;
__device__ void operator delete[](void*) noexcept;
__device__ void operator delete(void*, size_t) noexcept;
__device__ void operator delete[](void*, size_t) noexcept;

__device__ void __syncthreads();
__device__ int __syncthreads_or(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_count(int);
__device__ void __syncwarp(unsigned = 0xffffffffu);
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ int __all_sync(unsigned, int);
__device__ unsigned __activemask();
template <class T>
__device__ T __shfl_sync(unsigned, T, int, int = 32);
template <class T>
__device__ T __ldg(T const*);
template <class T>
__device__ T atomicAdd(T*, T);
template <class T>
__device__ T atomicExch(T*, T);
template <class T>
__device__ T atomicCAS(T*, T, T);
template <class T>
__device__ T atomicMin(T*, T);
template <class T>
__device__ T atomicMax(T*, T);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __nanosleep(unsigned);
__device__ long long clock64();
__device__ void __trap();
__device__ int min(int, int);
__device__ int max(int, int);
__device__ float sqrtf(float);
