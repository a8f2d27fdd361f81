// What device code has without being given it: a value that the host sets for the whole program, storage of the block, and which side runs
// it.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/program.hpp>
#else
#include <gpuheap/simt/host/program.hpp>
#endif
