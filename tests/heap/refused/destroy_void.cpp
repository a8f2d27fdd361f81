// Does not compile: destroy() runs the destructor of the object's type.
#include <gpuheap/heap.hpp>

auto refused(gpuheap::heap_ref<> heap, void* p) { return heap.destroy(p); }
