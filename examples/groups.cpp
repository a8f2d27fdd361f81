// Threads that allocate together: one allocation has the rows of all threads of a block, side by side.
#include <gpuheap/heap.hpp>

#include <cstdio>

struct make_rows {  // runs in each device thread
  gpuheap::heap_ref<> heap;
  gpuheap::block_scratch* scratch;  // an array with one element for each block. A kernel for CUDA only would use __shared__ memory
  unsigned** rows;
  GPUHEAP_FN void operator()(unsigned thread) const {
    auto const block = gpuheap::this_block(scratch[gpuheap::simt::block_id()]);
    unsigned const length = 1 + thread % 8;
    auto* const row = static_cast<unsigned*>(heap.malloc_each(block, length * sizeof(unsigned)));
    for (unsigned n = 0; row != nullptr && n < length; ++n) row[n] = thread;
    rows[thread] = row;
  }
};

struct drop_rows {
  gpuheap::heap_ref<> heap;
  gpuheap::block_scratch* scratch;
  unsigned** rows;
  GPUHEAP_FN void operator()(unsigned thread) const { heap.free(gpuheap::this_block(scratch[gpuheap::simt::block_id()]), rows[thread]); }
};

int main() {
  using namespace gpuheap::literals;
  constexpr unsigned blocks = 40, threads = blocks * 256;
  gpuheap::heap<> heap{64_MiB};
  gpuheap::memory::allocation const scratch{gpuheap::memory::device, blocks * sizeof(gpuheap::block_scratch)};
  gpuheap::memory::allocation const rows{gpuheap::memory::device, threads * sizeof(unsigned*)};
  auto* const each = static_cast<gpuheap::block_scratch*>(scratch.base());
  auto** const row = static_cast<unsigned**>(rows.base());
  gpuheap::launch(threads, make_rows{heap.ref(), each, row}, {.block_threads = 256});
  heap.check();
  std::printf("%lu allocations hold %u rows\n", heap.stats().live_allocations, threads);
  gpuheap::launch(threads, drop_rows{heap.ref(), each, row}, {.block_threads = 256});
  heap.check();
  std::printf("%lu allocations\n", heap.stats().live_allocations);
}
