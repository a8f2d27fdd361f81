// Loads and stores of two adjacent 8-byte words, aligned to 16 bytes, for data that other threads may read or write at the same time. To
// the memory model each word is an access of its own, relaxed and of device scope. Device code only.
#pragma once

#include <gpuheap/simt/config.hpp>

#if defined(GPUHEAP_BACKEND_CUDA)
#include <gpuheap/simt/cuda/word_pair.hpp>
#else
#include <gpuheap/simt/host/word_pair.hpp>
#endif
