// Several of the library's allocators, from a program without a line of CUDA.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/allocators/cuda_malloc.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/leaks.hpp>

#include <vector>

template <class Allocator>
void use() {
  gpuheap::heap<Allocator> heap{gpuheap::heap_size{64 << 20}};
  heap.free(std::vector<void*>(10));
  heap.check();
  if constexpr (gpuheap::has_blocks<Allocator>) heap.write_dump("library_only.dump");
}

int main() {
  use<gpuheap::sharded_spans>();
  use<gpuheap::cuda_malloc>();
  use<gpuheap::atomic_malloc>();
}
