// Sums of all elements before each: what a kernel's threads need to share one allocation made by the host. Host code, for sources that the
// compiler of kernels compiles.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/scan.hpp>
#else
#include <gpuheap/simt/host/scan.hpp>
#endif
