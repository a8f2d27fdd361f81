#include <gpuheap/heap.hpp>

#include <cstdio>

struct node {
  unsigned value;
  node* next;
};

__global__ void build(gpuheap::heap_ref<> heap, node** out) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = heap.create<node>(i, nullptr);  // nullptr when exhausted
}

__global__ void drop(gpuheap::heap_ref<> heap, node** out) { heap.destroy(out[blockIdx.x * blockDim.x + threadIdx.x]); }

int main() {
  using namespace gpuheap::literals;
  gpuheap::heap<> heap{1_GiB};  // throws gpuheap::out_of_memory naming what was asked and what was free
  node** out = nullptr;
  cudaMalloc(&out, 4096 * 256 * sizeof(node*));
  build<<<4096, 256>>>(heap.ref(), out);
  std::printf("%lu nodes live\n", heap.stats().live_allocations);
  drop<<<4096, 256>>>(heap.ref(), out);
  heap.check();  // throws if a request found no memory or a free was refused
  std::printf("%lu nodes live\n", heap.stats().live_allocations);
  cudaFree(out);
}
