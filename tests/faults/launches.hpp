// The launches of code that g++ compiles for CUDA, on the double: each is one call that can fail, and runs nothing.
#pragma once

#include "cuda_double.hpp"

#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

template <class Functor>
void launch(unsigned num_threads, Functor, launch_config) {
  if (num_threads == 0) return;
  if (!faults::passes("cudaLaunchKernelExC")) detail::check(cudaErrorUnknown, "launching a kernel");
}

template <class Functor>
unsigned most_resident_threads(unsigned block_threads) {
  if (!faults::passes("cudaOccupancyMaxActiveBlocksPerMultiprocessor"))
    detail::check(cudaErrorUnknown, "asking how many blocks a multiprocessor holds");
  return 132 * block_threads;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
