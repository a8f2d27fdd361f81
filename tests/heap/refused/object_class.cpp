// Does not compile: the heap is not one of such objects.
#include <gpuheap/object_heap.hpp>

struct apple {
  int core;
};
struct pear {
  int core;
};
void pick(gpuheap::object_heap_ref<apple> heap) { (void)heap.create<pear>(); }
