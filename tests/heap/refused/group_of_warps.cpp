// Does not compile: a block for a group of threads, of an allocator whose memory is a warp's.
#include <gpuheap/allocators/fdgmalloc.hpp>
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<gpuheap::fdgmalloc>;
void* refused(ref heap) { return heap.malloc(gpuheap::this_warp(), 100); }
