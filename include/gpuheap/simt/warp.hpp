// Lanes and warps: who am I, who is here, and what passes between lanes. Device code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/warp.hpp>
#else
#include <gpuheap/simt/host/warp.hpp>
#endif
