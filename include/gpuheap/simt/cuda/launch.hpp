// The CUDA backend of launch.hpp.
#pragma once

#include <gpuheap/simt/cuda/runtime.hpp>
#include <gpuheap/simt/cuda/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

#if GPUHEAP_HAS_HOST
#if defined(__CUDACC__)
#define GPUHEAP_EMITTED [[gnu::noinline, gnu::used]]
#else
#define GPUHEAP_EMITTED
#endif

namespace simt {

// Runs f(i) for every i < num_threads on the device, asynchronously on the stream. `f` is a trivially copyable functor whose call operator
// is a GPUHEAP_FN taking `unsigned`. The last warp may be partial. Host; throws simt::error if the launch is refused. num_threads == 0 does
// nothing.
//
// Under a compiler that cannot make kernels this is a declaration only: the definition comes from the object file in which nvcc
// instantiated it.
template <class Functor>
GPUHEAP_EMITTED void launch(unsigned num_threads, Functor f, launch_config config = {});

#if defined(__CUDACC__)
namespace detail {
template <class Functor>
__global__ void run_functor(unsigned num_threads, Functor f) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num_threads) f(i);
}
}  // namespace detail

template <class Functor>
void launch(unsigned num_threads, Functor f, launch_config config) {
  if (num_threads == 0) return;
  cudaLaunchConfig_t shape{};
  shape.gridDim = dim3(static_cast<unsigned>(ceil_div(num_threads, config.block_threads)));
  shape.blockDim = dim3(config.block_threads);
  shape.stream = static_cast<cudaStream_t>(config.stream.native);
  // Answers for this launch alone, where <<<>>> leaves its error among those of earlier calls.
  detail::check(cudaLaunchKernelEx(&shape, detail::run_functor<Functor>, num_threads, f), "launching a kernel");
}
#endif

}  // namespace simt

using simt::launch;
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
