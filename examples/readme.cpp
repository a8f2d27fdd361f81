#include <gpuheap/heap.hpp>

#include <cstdio>

struct node {
  unsigned value;
  node* next;
};

struct build_list {  // runs in each device thread
  gpuheap::heap_ref<> heap;
  GPUHEAP_FN void operator()(unsigned thread) const {
    node* list = nullptr;
    for (unsigned n = 0; n < thread % 8; ++n) list = heap.create<node>(n, list);
    if (thread % 2 == 0) heap.destroy(list);
  }
};

int main() {
  gpuheap::heap<> heap{64 << 20};  // bytes
  gpuheap::launch(10'000, build_list{heap.ref()});
  heap.check();  // throws if a request found no memory
  std::printf("%lu nodes live\n", heap.stats().live_allocations);
}
