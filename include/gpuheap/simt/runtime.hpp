// The machine as host code sees it: memory, copies, streams, time measurement, limits. Host code, but for the functions of CUDA's own heap.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/runtime.hpp>
#else
#include <gpuheap/simt/host/runtime.hpp>
#endif
