// Values that device code uses without an argument: a value that the host sets for the whole program, storage of the block, and the side
// that runs the code.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/program.hpp>
#else
#include <gpuheap/simt/host/program.hpp>
#endif
