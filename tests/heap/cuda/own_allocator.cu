// The one .cu file that a program with an allocator of its own needs.
#include "own_allocator.hpp"

#include <gpuheap/heap.hpp>

GPUHEAP_INSTANTIATE(own::slots);
