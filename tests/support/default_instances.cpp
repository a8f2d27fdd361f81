#define GPUHEAP_TEST_INSTANCE template
#include "default_instances.hpp"

#include <gpuheap/leaks.hpp>  // what blocks() of the allocator calls
