// Two heaps side by side, used from a source file that g++ compiles for either backend.
#include "own_allocator.hpp"

#include <cstdio>
#include <vector>

int main() {
  using namespace gpuheap::literals;
  gpuheap::heap<> library{64_MiB};
  gpuheap::heap<own_allocator> own{64_MiB};
  library.free(std::vector<void*>(1000));
  own.reset();
  own.check();
  std::printf("%lu and %lu live\n", library.stats().live_allocations, own.stats().live_allocations);
  return library.stats().live_allocations == 0 ? 0 : 1;
}
