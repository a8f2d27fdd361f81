// A kernel's call of a virtual function fails, without any code of this project. Exit code 1: it failed.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 tests/hazards/cuda_virtual.cu -o cuda_virtual
//   ./cuda_virtual
//
// The first kernel with virtual functions ended in an illegal memory access on an H200 (CUDA 13.0.88, driver 580.159). Compiled with
// -rdc=true as well, or with -G in place of -O3, all kernels passed.
//
// A kernel makes objects and deletes them, in one of five ways. A second kernel does so with a class without virtual functions: in a file
// with one kernel, nvcc makes another form of the table of virtual functions.
#include <cstdio>
#include <new>

struct has_virtual {
  __host__ __device__ virtual ~has_virtual() {}
};

struct plain {
  int value = 1;
  __host__ __device__ ~plain() {}
};

template <class T>
__global__ void make_and_delete(int way) {
  void* a = nullptr;
  void* b = nullptr;
  if (way == 0) {
    T* const one = new T;
    T* const row = new T[3];
    a = one;
    b = row;
    delete one;
    delete[] row;
  }
  if (way == 1) {
    a = ::operator new(sizeof(T));
    b = ::operator new[](3 * sizeof(T) + 8);
    ::operator delete(a);
    ::operator delete[](b);
  }
  if (way == 2) {
    T* const one = new T;
    a = b = one;
    delete one;
  }
  if (way == 3) {
    T* const row = new T[3];
    a = b = row;
    delete[] row;
  }
  if (way == 4) {
    T* const one = new T;
    a = b = one;
    ::operator delete(one);
  }
  if (threadIdx.x < 2) printf("way %d, thread %d: %p %p\n", way, threadIdx.x, a, b);
}

bool succeeded(char const* of, int way) {
  cudaError_t const status = cudaDeviceSynchronize();
  std::printf("%s, way %d: %s\n", of, way, cudaGetErrorString(status));
  return status == cudaSuccess;
}

int main() {
  for (int way = 0; way < 5; ++way) {
    make_and_delete<plain><<<1, 40>>>(way);
    if (!succeeded("without virtual functions", way)) return 1;
    make_and_delete<has_virtual><<<1, 40>>>(way);
    if (!succeeded("with virtual functions", way)) return 1;
  }
  return 0;
}
