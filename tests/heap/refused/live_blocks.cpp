// Does not compile: an allocator that does not tell what lives.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using heap = gpuheap::heap<gpuheap::atomic_malloc>;
void refused(heap& h) { h.live_blocks(); }
