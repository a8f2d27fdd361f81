// Does not compile: an allocator that gives nothing back.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using heap = gpuheap::heap<gpuheap::atomic_malloc>;
void refused(heap& h) { h.trim(); }
