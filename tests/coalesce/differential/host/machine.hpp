// The functions of the machine that the generated kernels call, for the simulator, and the program that runs each kernel apart and
// together.
#pragma once

#include <gpuheap/allocators/coalesce.hpp>
#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/warp.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>
#include <vector>

namespace machine {

// The calls with a promise: their number, for each thread, and their sizes, for each group. The heap itself serves sizes that differ.
struct promises {
  std::map<unsigned, unsigned> made;                                      // by thread
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::size_t> bytes;  // by block, warp and number of the call
  bool broken = false;

  void note(bool of_block, std::size_t size) {
    unsigned const block = gpuheap::simt::block_id(), thread = gpuheap::simt::thread_in_block();
    unsigned const call = made[block * gpuheap::simt::threads_per_block() + thread]++;
    auto const [first, is_new] = bytes.try_emplace({block, of_block ? 0 : thread / 32, call}, size);
    broken = broken || (!is_new && first->second != size);
  }
};
inline promises promised;

using coalescing = gpuheap::basic_coalesce_block_header<gpuheap::sharded_spans>;

// The default allocator of rewritten programs, with a look at what it is asked.
struct watched : coalescing {
  template <class Threads>
  void* malloc_by_block(Threads const& threads, std::size_t bytes) const {
    promised.note(true, bytes);
    return coalescing::malloc_by_block(threads, bytes);
  }
  template <class Threads>
  void* malloc_by_warp(Threads const& threads, std::size_t bytes) const {
    promised.note(false, bytes);
    return coalescing::malloc_by_warp(threads, bytes);
  }
  static watched create(gpuheap::memory::region region, gpuheap::stream_ref stream) { return {coalescing::create(region, stream)}; }
};

}  // namespace machine

#define GPUHEAP_PROGRAM_ALLOCATOR machine::watched
#include <gpuheap/coalesced.hpp>

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

// Runs a kernel under the schedule of the environment and stores its results in `out`; false if it does not end.
inline bool run(kernel k, bool together, std::vector<unsigned>& out) {
  gpuheap::coalesced::init(gpuheap::heap_size{1 << 20});
  if (!together) gpuheap::coalesced::serve_apart();
  out.assign(blocks * threads, 0);
  std::vector<int> words(16);
  promised = {};
  bool ended = true;
  try {
    gpuheap::launch(blocks * threads, call_kernel{k, out.data(), words.data(), 4}, {.block_threads = threads});
  } catch (gpuheap::error const&) {
    ended = false;
  }
  gpuheap::coalesced::clean();
  return ended;
}

// Each kernel apart and together: a line for each that does not keep its promises, its number and what happened. Under a schedule in which
// a kernel does not end although all is served apart, it has `starved`, and nothing is known of it.
template <std::size_t N>
int run_all(kernel const (&kernels)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    std::vector<unsigned> apart, together;
    char const* found = nullptr;
    if (!run(kernels[i], false, apart)) {
      found = "starved";
    } else if (!run(kernels[i], true, together)) {
      found = "hangs";
    } else if (promised.broken) {
      found = "sizes";
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
// Lanes that the block has not got cannot vote.
inline unsigned __ballot_sync(unsigned mask, int vote) {
  unsigned const lanes = gpuheap::simt::threads_per_block() - gpuheap::simt::thread_in_block() / 32 * 32;
  return gpuheap::simt::ballot(lanes < 32 ? mask & ((1u << lanes) - 1) : mask, vote != 0);
}
inline void __nanosleep(unsigned) { gpuheap::simt::back_off{}.wait(); }
inline void __threadfence() { gpuheap::simt::fence(gpuheap::simt::acq_rel); }
