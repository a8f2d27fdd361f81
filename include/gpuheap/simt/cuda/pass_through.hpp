// Declares the functions that nvcc, NVRTC and clang provide in CUDA code, for a compiler without CUDA: g++ on the .cpp files of a CUDA
// program. No file defines these functions. Inline device functions therefore parse, and host code that calls one of them does not link.
#pragma once

#if !defined(__CUDACC__)
#include <device_launch_parameters.h>

unsigned __activemask();
void __syncwarp(unsigned mask);
unsigned __ballot_sync(unsigned mask, int vote);
int __all_sync(unsigned mask, int vote);
int __any_sync(unsigned mask, int vote);
template <class T>
T __shfl_sync(unsigned mask, T value, int source);
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance);
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance);
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes);
template <class T>
unsigned __match_any_sync(unsigned mask, T value);
void __syncthreads();
[[noreturn]] void __trap();
#endif
