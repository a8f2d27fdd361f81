// The functions of the machine that the programs of this folder call, for the simulator: CUDA's keywords for device code, and the same two
// functions.
#pragma once

#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <cstdio>
#include <cstdlib>

// Those of the toolkit's headers, where libcu++ has included them.
#undef __global__
#undef __device__
#undef __host__
#define __global__
#define __device__
#define __host__

namespace on_machine {

template <unsigned (*Number)()>
struct one_dimension {
  struct {
    operator unsigned() const { return Number(); }
  } x;
};

template <class Kernel, class... Args>
struct call_kernel {
  Kernel run;
  void operator()(unsigned) const { run(); }
};

}  // namespace on_machine

inline constexpr on_machine::one_dimension<gpuheap::simt::thread_in_block> threadIdx{};
inline constexpr on_machine::one_dimension<gpuheap::simt::block_id> blockIdx{};
inline constexpr on_machine::one_dimension<gpuheap::simt::threads_per_block> blockDim{};

template <class... Parameters, class... Args>
void run_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Args... arguments) {
  auto const run = [=] { kernel(arguments...); };
  gpuheap::launch(blocks * threads, on_machine::call_kernel<decltype(run)>{run}, {.block_threads = threads});
}

// Given back when the program ends.
template <class T>
T* both_sides(unsigned count) {
  static T* all[16];
  static unsigned num_all = 0;
  return all[num_all++ % 16] = static_cast<T*>(std::calloc(count, sizeof(T)));
}
