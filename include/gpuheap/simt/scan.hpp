// Exclusive prefix sums of sizes in device memory. They say where each thread's part lies in one allocation that the host makes. Host code;
// with CUDA only in sources that nvcc compiles.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/scan.hpp>
#else
#include <gpuheap/simt/host/scan.hpp>
#endif
