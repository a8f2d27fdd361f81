// What the generated kernels ask of the machine, for the simulator, and the program that runs each apart and together.
#pragma once

#include <gpuheap/coalesced.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <gpuheap_simulator/settings.hpp>

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

// What a kernel leaves behind under one schedule; false, and words, if it does not end.
inline bool run(kernel k, bool together, std::uint64_t seed, std::vector<unsigned>& out) {
  gpuheap::coalesced::init(gpuheap::heap_size{1 << 20});
  if (!together) gpuheap::coalesced::serve_apart();
  constexpr gpuheap::simulator::scheduler_kind kinds[] = {
      gpuheap::simulator::scheduler_kind::round_robin, gpuheap::simulator::scheduler_kind::random,
      gpuheap::simulator::scheduler_kind::run_through, gpuheap::simulator::scheduler_kind::pct};
  gpuheap::simulator::settings how = gpuheap::simulator::current_settings();
  how.seed = seed;
  how.scheduler = kinds[seed % 4];
  how.step_budget = 400'000;
  gpuheap::simulator::scoped_settings const scope{how};
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

// Each kernel apart and together, under `num_seeds` schedules: one line for each that differs, its number and what happened. A schedule
// under which a kernel does not end although all is served apart says nothing; one for which there is none that ends is `broken`.
template <std::size_t N>
int run_all(kernel const (&kernels)[N], unsigned num_seeds) {
  int findings = 0;
  for (std::size_t i = 0; i < N; ++i) {
    std::vector<unsigned> apart, together;
    char const* found = nullptr;
    bool known = false;
    for (unsigned seed = 0; seed < num_seeds && found == nullptr; ++seed) {
      std::vector<unsigned> now;
      if (!run(kernels[i], false, seed, now)) continue;
      if (known && now != apart) found = "broken";
      apart = now;
      known = true;
      if (!run(kernels[i], true, seed, together)) {
        found = "hangs";
      } else if (together != apart) {
        found = "differs";
      }
    }
    if (!known) found = "broken";
    if (found == nullptr) continue;
    std::printf("%zu %s\n", i, found);
    std::fflush(stdout);
    ++findings;
  }
  return findings == 0 ? 0 : 1;
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
