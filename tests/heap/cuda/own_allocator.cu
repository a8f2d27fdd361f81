// What a program with an allocator of its own adds to one .cu file.
#include "own_allocator.hpp"

#include <gpuheap/heap.hpp>

GPUHEAP_INSTANTIATE(own::slots);
