// The same program's ranks as threads of a kernel.
#pragma once

#include <gpuheap/mpi/names.hpp>

#include <cstdio>

#define RANK_FN GPUHEAP_FN

RANK_FN void rank_main();

RANK_FN inline void* allocate(std::size_t bytes) { return gpuheap::coalesced::malloc(bytes); }
RANK_FN inline void release(void* p) { gpuheap::coalesced::free(p); }

struct program {
  GPUHEAP_FN void operator()() const { rank_main(); }
};

int main() {
  using namespace gpuheap::literals;
  gpuheap::coalesced::init(64_MiB);
  gpuheap::mpi::result const ended = gpuheap::mpi::run_program(4, program{}, {.block_threads = 32});
  auto const left = gpuheap::coalesced::program_heap()->stats().live_allocations;
  if (ended.aborted) std::printf("rank %d aborted with %d, error class %d\n", ended.rank, ended.code, ended.error);
  if (left != 0) std::printf("%llu blocks are left in the heap\n", static_cast<unsigned long long>(left));
  return ended.aborted || left != 0;
}
