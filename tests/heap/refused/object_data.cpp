// Does not compile: nothing is run when an object ends.
#include <gpuheap/object_heap.hpp>

struct balloon {
  int air;
  GPUHEAP_FN ~balloon() { air = 0; }
};
void inflate(gpuheap::object_heap_ref<balloon> heap) { (void)heap.create<balloon>(); }
