// Values that device code reaches without an argument: one that the host sets for the whole program, and storage for each thread block.
// Also a call that differs between host code and device code.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/program.hpp>
#else
#include <gpuheap/simt/host/program.hpp>
#endif
