// Runs a test under many schedules. In the simulator a seed chooses each schedule; on a GPU the hardware does. Host code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/explore.hpp>
#else
#include <gpuheap/simt/host/explore.hpp>
#endif
