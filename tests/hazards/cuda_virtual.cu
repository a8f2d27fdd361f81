// A kernel's call of a virtual function fails, without any code of this project. Exit code 1: it failed.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 tests/hazards/cuda_virtual.cu -o cuda_virtual
//   ./cuda_virtual     # on an H200, CUDA 13.0.88, driver 580.159: an illegal memory access; compiled with -G in place of -O3 it passes
#include <cstdio>

namespace {

struct has_virtual {
  __host__ __device__ virtual ~has_virtual() {}
};

__global__ void make_and_delete() {
  auto* const one = new has_virtual;
  auto* const row = new has_virtual[3];
  void const* const addresses[] = {one, row};
  delete one;
  delete[] row;
  if (threadIdx.x < 2) printf("thread %d had %p and %p\n", threadIdx.x, addresses[0], addresses[1]);
}

}  // namespace

int main() {
  make_and_delete<<<1, 40>>>();
  cudaError_t const status = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(status));
  return status == cudaSuccess ? 0 : 1;
}
