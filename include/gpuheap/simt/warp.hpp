// Lanes and warps: the calling thread, the lanes that are here, and what passes between lanes. Device code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/warp.hpp>
#else
#include <gpuheap/simt/host/warp.hpp>
#endif
