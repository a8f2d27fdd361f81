// Callers whose compiled code shows what ptxas assumes that a function keeps: as much as it can hold across one call. Compiled, never run:
// test_registers.py reads the instructions. CALLEE: 0 malloc, 1 free, 2 over-aligned new, 3 a function that ptxas knows nothing of.
#include <cstdlib>

extern "C" __device__ void* __cuda_syscall_aligned_malloc(size_t, size_t);
extern "C" __device__ void* ordinary(size_t);

template <int Callee>
__device__ __forceinline__ unsigned long long ask(unsigned long long argument) {
  if constexpr (Callee == 0) return reinterpret_cast<unsigned long long>(malloc(argument));
  if constexpr (Callee == 1) free(reinterpret_cast<void*>(argument));
  if constexpr (Callee == 2) return reinterpret_cast<unsigned long long>(__cuda_syscall_aligned_malloc(argument, 64));
  if constexpr (Callee == 3) return reinterpret_cast<unsigned long long>(ordinary(argument));
  return 1;
}

// More values than there are registers.
extern "C" __global__ void registers(unsigned* p) {
  unsigned v[230];
#pragma unroll
  for (int i = 0; i < 230; ++i) v[i] = p[threadIdx.x + i * 1024];
  unsigned long long const got = ask<CALLEE>(p[5]);
#pragma unroll
  for (int i = 0; i < 230; ++i) p[threadIdx.x + i * 1024] = v[i] * 3 + static_cast<unsigned>(got);
}

// Conditions.
extern "C" __global__ void predicates(unsigned* p, unsigned long long n) {
  bool b[14];
#pragma unroll
  for (int i = 0; i < 14; ++i) b[i] = p[i] > p[i + 100];
  p[7] = static_cast<unsigned>(ask<CALLEE>(n));
#pragma unroll
  for (int i = 0; i < 14; ++i) {
    if (b[i]) p[i + 200] = i;
  }
}

// Values that are the same in all threads.
extern "C" __global__ void uniform(unsigned* p, uint4 a, uint4 b, uint4 c, uint4 d, unsigned long long n) {
  unsigned const u[] = {a.x * b.y, a.y * b.z, a.z * b.w, a.w * b.x, c.x * d.y, c.y * d.z, c.z * d.w, c.w * d.x,
                        a.x * c.y, a.y * c.z, a.z * c.w, a.w * c.x, b.x * d.y, b.y * d.z, b.z * d.w, b.w * d.x};
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned i = 0; i < a.x; ++i) {
    sum += static_cast<unsigned>(ask<CALLEE>(n + i));
#pragma unroll
    for (int k = 0; k < 16; ++k) p[u[k] + i * d.x] = u[(k + 1) % 16];
  }
  p[threadIdx.x] = sum;
}

// Branches in branches, at whose ends lanes meet again.
extern "C" __global__ void barriers(unsigned* p, unsigned long long n) {
  unsigned const t = threadIdx.x;
  auto const level = [&](unsigned k, auto inner) {
#pragma unroll 1
    for (unsigned i = 0; i < p[t * 16 + k]; ++i) {
      if (p[t + k + i] & 1) {
        inner();
        p[t + k] += 3;
      }
      __syncwarp();
      p[t + k] ^= 9;
    }
    __syncwarp();
  };
  level(0, [&] { level(1, [&] { level(2, [&] { level(3, [&] { p[t + 5] = static_cast<unsigned>(ask<CALLEE>(n)); }); }); }); });
}
