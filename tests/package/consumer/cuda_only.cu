// A CUDA program, all of it compiled by nvcc.
#include <gpuheap/heap.hpp>

__global__ void kernel(gpuheap::heap_ref<> heap) { heap.free(heap.malloc(threadIdx.x)); }

int main() {
  gpuheap::heap<> heap{64 << 20};
  kernel<<<1, 32>>>(heap.ref());
  heap.check();
}
