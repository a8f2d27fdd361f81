// Heaps in memory of cuda::mr resources, in the shape of CCCL 3.0 and in the later one.
#include <gpuheap/memory/cuda_mr.hpp>

#include "../fixtures.hpp"

#include <cuda_runtime.h>

namespace resources {

struct counts {
  int given = 0, returned = 0;
};
void* take_memory(std::size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) throw std::bad_alloc();
  return p;
}

// allocate and deallocate are the synchronous pair.
struct original_resource {
  counts* c;
  void* allocate(std::size_t bytes, std::size_t) { return ++c->given, take_memory(bytes); }
  void deallocate(void* p, std::size_t, std::size_t) { ++c->returned, cudaFree(p); }
  friend bool operator==(original_resource const& a, original_resource const& b) { return a.c == b.c; }
  friend bool operator!=(original_resource const& a, original_resource const& b) { return a.c != b.c; }
  friend void get_property(original_resource const&, ::cuda::mr::device_accessible) noexcept {}
};
// allocate_sync and deallocate_sync are.
struct renamed_resource {
  counts* c;
  void* allocate_sync(std::size_t bytes, std::size_t) { return ++c->given, take_memory(bytes); }
  void deallocate_sync(void* p, std::size_t, std::size_t) { ++c->returned, cudaFree(p); }
  friend bool operator==(renamed_resource const& a, renamed_resource const& b) { return a.c == b.c; }
  friend bool operator!=(renamed_resource const& a, renamed_resource const& b) { return a.c != b.c; }
  friend void get_property(renamed_resource const&, ::cuda::mr::device_accessible) noexcept {}
};
// Memory that kernels do not reach.
struct host_only_resource : original_resource {
  friend void get_property(host_only_resource const&, ::cuda::mr::host_accessible) noexcept {}
  friend void get_property(host_only_resource const&, ::cuda::mr::device_accessible) = delete;
};

}  // namespace resources

namespace {

using namespace test;
using namespace resources;

static_assert(gpuheap::memory::cuda_resource<original_resource> && gpuheap::memory::cuda_resource<renamed_resource>);
static_assert(!gpuheap::memory::cuda_resource<host_only_resource>);

template <class Resource>
void serve_from() {
  counts c;
  {
    gpuheap::heap<> heap{8_MiB, gpuheap::memory::cuda_mr{Resource{&c}}};
    for (void* p : blocks_of(heap, 1000, 100)) EXPECT_NE(p, nullptr);
    EXPECT_EQ(heap.stats().live_allocations, 1000u);
    gpuheap::heap<> const moved{std::move(heap)};
    EXPECT_EQ(c.given, 1);
  }
  EXPECT_EQ(c.returned, 1);
  EXPECT_THROW((gpuheap::heap<>{std::size_t{1} << 50, gpuheap::memory::cuda_mr{Resource{&c}}}), gpuheap::out_of_memory);
}
TEST(CudaMr, ServesFromAResourceOfEitherShape) {
  serve_from<original_resource>();
  serve_from<renamed_resource>();
}

}  // namespace
