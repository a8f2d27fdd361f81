// Does not compile: leaks.hpp is not included.
#include <gpuheap/heap.hpp>

auto live(gpuheap::heap<> const& heap) { return heap.blocks(); }
