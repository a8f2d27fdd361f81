// Does not compile: without sizes there is no realloc.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<gpuheap::atomic_malloc>;
void* refused(ref heap, void* p) { return heap.realloc(p, 100); }
