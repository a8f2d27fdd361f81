// Does not compile: an allocator that cannot grow.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using heap = gpuheap::heap<gpuheap::atomic_malloc>;
void refused(heap& h) { h.grow_when_exhausted({.factor = 2}); }
