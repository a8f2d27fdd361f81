#include "own_allocator.hpp"

GPUHEAP_INSTANTIATE(own_allocator);
