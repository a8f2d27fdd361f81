// What a compiler that cannot compile the library is given.
#include <gpuheap/heap.hpp>
