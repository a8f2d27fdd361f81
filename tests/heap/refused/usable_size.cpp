// Does not compile: atomic_malloc knows no sizes.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<gpuheap::atomic_malloc>;
gpuheap::simt::size_t refused(ref heap, void* p) { return heap.usable_size(p); }
