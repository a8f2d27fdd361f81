// The machine for host code: memory, copies, streams, clocks, limits. Host code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/runtime.hpp>
#else
#include <gpuheap/simt/host/runtime.hpp>
#endif
