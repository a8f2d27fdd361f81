// The CUDA backend of launch.hpp: a kernel template that calls the functor.
#pragma once

#include <gpuheap/simt/cuda/runtime.hpp>
#include <gpuheap/simt/cuda/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <optional>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

#if GPUHEAP_HAS_HOST
#if defined(__CUDACC__)
#define GPUHEAP_EMITTED [[gnu::noinline, gnu::used]]
#else
#define GPUHEAP_EMITTED
#endif

namespace simt {

// Runs f(i) for every i < num_threads on the device, asynchronously on the stream. `f` is a trivially copyable functor whose call operator
// is a GPUHEAP_FN taking `unsigned`. The last warp may be partial. Host; throws an `error` if the launch is refused. num_threads == 0 does
// nothing.
//
// A functor may define `static constexpr unsigned largest_block`, the most threads of a block, and `blocks_at_once`, the blocks that a
// multiprocessor shall hold at once. Both become the kernel's launch bounds: the compiler gives each thread at most as many registers as
// they allow, whatever register limit the program is built with.
// A compiler that cannot make kernels sees a declaration only. The definition comes from the object file in which nvcc instantiated the
// template.
template <class Functor>
GPUHEAP_EMITTED void launch(unsigned num_threads, Functor f, launch_config config = {});

// The resources that each thread of launch()'s kernel for a Functor needs on the current device. Host; throws device_error. The optional is
// empty on the simulator only. nvcc makes the definition, as for launch().
template <class Functor>
[[nodiscard]] GPUHEAP_EMITTED std::optional<kernel_attributes> attributes_of_kernel();

// The most threads that a cooperative launch of a Functor's kernel can have on the current device, in blocks of `block_threads`. Host;
// throws device_error. nvcc makes the definition, as for launch().
template <class Functor>
[[nodiscard]] GPUHEAP_EMITTED unsigned most_resident_threads(unsigned block_threads);

#if defined(__CUDACC__)
namespace detail {
template <class Functor>
__global__ void run_functor(unsigned num_threads, Functor f) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num_threads) f(i);
}
template <class Functor>
[[nodiscard]] constexpr unsigned blocks_at_once_of() {
  if constexpr (requires { Functor::blocks_at_once; }) {
    return Functor::blocks_at_once;
  } else {
    return 1;
  }
}
template <class Functor>
__global__ void __launch_bounds__(Functor::largest_block, blocks_at_once_of<Functor>())
    run_bounded_functor(unsigned num_threads, Functor f) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num_threads) f(i);
}
template <class Functor>
[[nodiscard]] constexpr auto kernel_of() {
  if constexpr (requires { Functor::largest_block; }) {
    return &run_bounded_functor<Functor>;
  } else {
    return &run_functor<Functor>;
  }
}
}  // namespace detail

template <class Functor>
void launch(unsigned num_threads, Functor f, launch_config config) {
  if (num_threads == 0) return;
  cudaLaunchConfig_t shape{};
  shape.gridDim = dim3(static_cast<unsigned>(ceil_div(num_threads, config.block_threads)));
  shape.blockDim = dim3(config.block_threads);
  shape.stream = static_cast<cudaStream_t>(config.stream.native);
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  if (config.cooperative) {
    shape.attrs = &cooperative;
    shape.numAttrs = 1;
  }
  // cudaLaunchKernelEx returns the error of this launch. The error that cudaGetLastError returns after <<<>>> may be that of an earlier
  // call.
  detail::check(cudaLaunchKernelEx(&shape, detail::kernel_of<Functor>(), num_threads, f), "launching a kernel");
}

template <class Functor>
std::optional<kernel_attributes> attributes_of_kernel() {
  cudaFuncAttributes found{};
  detail::check(cudaFuncGetAttributes(&found, detail::kernel_of<Functor>()), "asking what a kernel needs");
  return kernel_attributes{static_cast<unsigned>(found.numRegs), found.localSizeBytes};
}

template <class Functor>
unsigned most_resident_threads(unsigned block_threads) {
  int sms = 0, blocks = 0;
  detail::check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, current_device()),
                "asking how many multiprocessors the GPU has");
  detail::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, detail::kernel_of<Functor>(), static_cast<int>(block_threads), 0),
                "asking how many blocks a multiprocessor holds");
  return static_cast<unsigned>(blocks) * static_cast<unsigned>(sms) * block_threads;
}
#endif

}  // namespace simt

using simt::launch;
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
