#include <gpuheap/coalesced.hpp>
