// The functions of the machine that the programs of this folder call, for a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

// Runs kernel(arguments...) in `blocks` blocks of `threads` threads, and waits for it.
template <class... Parameters, class... Args>
void run_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Args... arguments) {
  kernel<<<blocks, threads>>>(arguments...);
  if (cudaDeviceSynchronize() == cudaSuccess) return;
  std::printf("a kernel failed\n");
  std::exit(1);
}

// Memory that both sides use, for as long as the program runs.
template <class T>
T* both_sides(unsigned count) {
  void* p = nullptr;
  if (cudaMallocManaged(&p, count * sizeof(T)) != cudaSuccess) {
    std::printf("no memory\n");
    std::exit(1);
  }
  return static_cast<T*>(p);
}
