#include <gpuheap/heap.hpp>

#include <cstdio>

struct take_blocks {  // runs in each device thread
  gpuheap::heap_ref<> heap;
  void** blocks;
  GPUHEAP_FN void operator()(unsigned thread) const {
    if (blocks[thread] == nullptr) blocks[thread] = heap.malloc(4096);  // a later launch repeats a request that found no memory
  }
};

int main() {
  using namespace gpuheap::literals;
  constexpr unsigned threads = 10'000;
  gpuheap::heap<> heap{gpuheap::growth{.initial = 8_MiB, .at_most = 1_GiB}};  // reserves addresses for 1 GiB, takes memory for 8 MiB
  heap.grow_when_exhausted({.factor = 2});
  gpuheap::memory::allocation const pointers{gpuheap::memory::device, threads * sizeof(void*)};
  auto** const blocks = static_cast<void**>(pointers.base());
  gpuheap::simt::fill(blocks, 0, pointers.bytes());
  do {
    gpuheap::launch(threads, take_blocks{heap.ref(), blocks});
  } while (heap.check() != 0);  // the bytes by which the heap has grown; 0 if no request failed
  std::printf("%lu blocks live in %lu MiB\n", heap.stats().live_allocations, heap.capacity() >> 20);
  heap.free(gpuheap::device_span{blocks, threads});
  heap.trim();  // frees the unused memory at the end of the heap
  std::printf("%s\n", heap.capacity() < 8_MiB ? "trimmed" : "in use");
}
