// Two words of 8 bytes side by side, aligned to 16, by one access: for data that other threads may read or write at the same time. Each
// word is an access of its own to the memory model, relaxed and of device scope. Device code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/word_pair.hpp>
#else
#include <gpuheap/simt/host/word_pair.hpp>
#endif
