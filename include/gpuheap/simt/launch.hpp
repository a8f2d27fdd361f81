// Runs a functor on N device threads. Host code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/launch.hpp>
#else
#include <gpuheap/simt/host/launch.hpp>
#endif
