// Does not compile: an allocator that cannot grow has no heap that does.
#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/heap.hpp>

using heap = gpuheap::heap<gpuheap::atomic_malloc>;
heap refused() { return heap{gpuheap::growth{.initial = 1 << 20, .at_most = 1 << 30}}; }
