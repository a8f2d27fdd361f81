// What the generated kernels ask of the machine, for the simulator, and the program that runs each apart and together.
#pragma once

#include <gpuheap/coalesced.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

#undef __global__
#undef __device__
#undef __host__
#define __global__ static
#define __device__
#define __host__

namespace machine {

template <unsigned (*Number)()>
struct one_dimension {
  struct {
    operator unsigned() const { return Number(); }
  } x;
};

using kernel = void (*)(unsigned*, int*, int);

struct call_kernel {
  kernel run;
  unsigned* out;
  int* words;
  int n0;
  void operator()(unsigned) const { run(out, words, n0); }
};

inline constexpr unsigned blocks = 2, threads = 40;

// What a kernel leaves behind, under the schedule of the environment; false if it does not end.
inline bool run(kernel k, bool together, std::vector<unsigned>& out) {
  gpuheap::coalesced::init(gpuheap::heap_size{1 << 20});
  if (!together) gpuheap::coalesced::serve_apart();
  out.assign(blocks * threads, 0);
  std::vector<int> words(8);
  bool ended = true;
  try {
    gpuheap::launch(blocks * threads, call_kernel{k, out.data(), words.data(), 4}, {.block_threads = threads});
  } catch (gpuheap::error const&) {
    ended = false;
  }
  gpuheap::coalesced::clean();
  return ended;
}

// Each kernel apart and together: a line for each that differs, its number and what happened. Under a schedule in which a kernel does not
// end although all is served apart, it has `starved`, and nothing is known of it.
template <std::size_t N>
int run_all(kernel const (&kernels)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    std::vector<unsigned> apart, together;
    char const* found = nullptr;
    if (!run(kernels[i], false, apart)) {
      found = "starved";
    } else if (!run(kernels[i], true, together)) {
      found = "hangs";
    } else if (together != apart) {
      found = "differs";
    }
    if (found != nullptr) std::printf("%zu %s\n", i, found);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace machine

inline constexpr machine::one_dimension<gpuheap::simt::thread_in_block> threadIdx{};
inline constexpr machine::one_dimension<gpuheap::simt::block_id> blockIdx{};
inline constexpr machine::one_dimension<gpuheap::simt::threads_per_block> blockDim{};

inline void __syncthreads() { gpuheap::simt::sync_living_block(); }
inline int atomicCAS(int* object, int expected, int value) {
  (void)gpuheap::simt::atomic_ref<int>{*object}.compare_exchange(expected, value, gpuheap::simt::acq_rel, gpuheap::simt::acquire);
  return expected;
}
inline int atomicExch(int* object, int value) { return gpuheap::simt::atomic_ref<int>{*object}.exchange(value, gpuheap::simt::acq_rel); }
inline int atomicAdd(int* object, int value) { return gpuheap::simt::atomic_ref<int>{*object}.fetch_add(value, gpuheap::simt::acq_rel); }
inline void __nanosleep(unsigned) { gpuheap::simt::back_off{}.wait(); }
inline void __threadfence() { gpuheap::simt::fence(gpuheap::simt::acq_rel); }
