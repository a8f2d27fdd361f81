// Does not compile: pages are aligned as the heap's blocks are.
#include <gpuheap/containers/paged_queue.hpp>
#include <gpuheap/heap.hpp>

struct alignas(32) wide {
  int value;
};
void push(gpuheap::paged_queue<wide, gpuheap::heap_ref<>> queue) { (void)queue.try_push({7}); }
