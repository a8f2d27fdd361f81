// Atomic operations with order and scope, `global_ref` and the orders `dependent` and `handed_on`, fences, cached and checked plain
// accesses, back-off. Device code (atomic_ref also on the host side of memory that both reach).
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/atomic.hpp>
#else
#include <gpuheap/simt/host/atomic.hpp>
#endif
