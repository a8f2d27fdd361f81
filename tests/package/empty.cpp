// The source for a compiler that cannot compile the library.
#include <gpuheap/heap.hpp>
