// Sums of all elements before each, by which a kernel's threads share one allocation that the host makes. Host code, for sources that the
// compiler of kernels compiles.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/scan.hpp>
#else
#include <gpuheap/simt/host/scan.hpp>
#endif
