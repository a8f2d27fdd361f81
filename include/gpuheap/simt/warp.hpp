// Lanes and warps: the calling thread's indices, the mask of active lanes, exchanges between lanes, barriers, and the end of a thread.
// Device code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/warp.hpp>
#else
#include <gpuheap/simt/host/warp.hpp>
#endif
