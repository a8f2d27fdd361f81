// Does not compile: a checked heap has a fixed size, even if its allocator can grow.
#include <gpuheap/checked.hpp>
#include <gpuheap/heap.hpp>

using heap = gpuheap::heap<gpuheap::checked<>>;
heap refused() { return heap{gpuheap::growth{.initial = 1 << 20, .at_most = 1 << 30}}; }
