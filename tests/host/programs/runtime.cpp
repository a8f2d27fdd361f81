// A program of the CUDA runtime: one allocation, which on the driver double fails at the runtime's start, after it has asked for every
// entry point.

#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  void* block = nullptr;
  std::printf("cudaMalloc: %d\n", static_cast<int>(cudaMalloc(&block, 4096)));
  return 0;
}
