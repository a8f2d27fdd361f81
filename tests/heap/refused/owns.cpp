// Does not compile: the toolkit's heap has no address range to ask about.
#include <gpuheap/allocators/cuda_malloc.hpp>
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<gpuheap::cuda_malloc>;
bool refused(ref heap, void* p) { return heap.owns(p); }
