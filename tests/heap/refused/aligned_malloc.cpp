// Does not compile: an object wider than the allocator's alignment, and no aligned_malloc.
#include <gpuheap/allocators/cuda_malloc.hpp>
#include <gpuheap/heap.hpp>

struct alignas(128) wide {};
using ref = gpuheap::heap_ref<gpuheap::cuda_malloc>;
wide* refused(ref heap) { return heap.create<wide>(); }
