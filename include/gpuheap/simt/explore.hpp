// Running a test under many schedules: chosen ones in the simulator, whatever comes on a GPU. Host code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/explore.hpp>
#else
#include <gpuheap/simt/host/explore.hpp>
#endif
