// Address ranges that are reserved first and get memory later, so that their contents can grow without moving. Host code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/address_space.hpp>
#else
#include <gpuheap/simt/host/address_space.hpp>
#endif
