// Atomic operations with order and scope, `global_ref` with the orders `consume`, `relay` and `consume_release`, fences, cached and checked
// plain accesses, back-off. Device code. `atomic_ref` also works on the host, on memory that host and device share.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/atomic.hpp>
#else
#include <gpuheap/simt/host/atomic.hpp>
#endif
