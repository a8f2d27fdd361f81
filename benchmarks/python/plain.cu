// The time of a C++ kernel for malloc and free of 16 B by a million threads, as a reference for kernels of Python: plain nvcc, heap<>, by
// value.
#include <gpuheap/heap.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

__global__ void take(gpuheap::heap_ref<> heap, void** out, size_t bytes, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = heap.malloc(bytes);
}
__global__ void give(gpuheap::heap_ref<> heap, void** out, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) heap.free(out[i]);
}

// Keeps the device busy for half a millisecond, in which the host gets everything under way that is then timed.
__global__ void keep_busy() {
  long long const begun = clock64();
  while (clock64() - begun < 800'000) {
  }
}

template <class Launch>
float microseconds(cudaEvent_t before, cudaEvent_t after, Launch launch) {
  keep_busy<<<1, 1>>>();
  cudaEventRecord(before);
  launch();
  cudaEventRecord(after);
  cudaEventSynchronize(after);
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, before, after);
  return milliseconds * 1000;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gpuheap::literals;
  int const n = argc > 1 ? std::atoi(argv[1]) : 1'000'000, runs = argc > 2 ? std::atoi(argv[2]) : 21;
  gpuheap::heap<> heap{4_GiB};
  void** out = nullptr;
  cudaMalloc(&out, n * sizeof(void*));
  cudaEvent_t before, after;
  cudaEventCreate(&before);
  cudaEventCreate(&after);
  std::vector<float> mallocs, frees;
  for (int run = 0; run < runs; ++run) {
    heap.reset();
    mallocs.push_back(microseconds(before, after, [&] { take<<<(n + 255) / 256, 256>>>(heap.ref(), out, 16, n); }));
    frees.push_back(microseconds(before, after, [&] { give<<<(n + 255) / 256, 256>>>(heap.ref(), out, n); }));
  }
  heap.check();
  std::sort(mallocs.begin(), mallocs.end());
  std::sort(frees.begin(), frees.end());
  std::printf("{\"malloc_us\": %.1f, \"free_us\": %.1f}\n", mallocs[runs / 2], frees[runs / 2]);
}
