// Does not compile: create() makes one object.
#include <gpuheap/heap.hpp>

auto* refused(gpuheap::heap_ref<> heap) { return heap.create<int[]>(8); }
