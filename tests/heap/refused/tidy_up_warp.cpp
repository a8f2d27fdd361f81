// Does not compile: the allocator has nothing to tidy up.
#include <gpuheap/heap.hpp>

using ref = gpuheap::heap_ref<>;
void refused(ref heap) { heap.tidy_up_warp(gpuheap::this_warp()); }
