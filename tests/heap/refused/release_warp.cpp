// Does not compile: blocks that are freed one by one are not a warp's.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<gpuheap::atomic_malloc>;
void refused(ref heap) { heap.release_warp(); }
