// The toolkit's own heap behind gpuheap's interface: one for the process, whose size the first heap fixes.
#include "../fixtures.hpp"

#include <gpuheap/allocators/cuda_malloc.hpp>

namespace {

using namespace test;
using heap_t = gpuheap::heap<gpuheap::cuda_malloc>;

__global__ void fill(void* const* blocks) { *static_cast<unsigned*>(blocks[threadIdx.x]) = threadIdx.x; }

TEST(CudaMalloc, HasOneSizeForTheProcess) {
  heap_t first{32_MiB};
  EXPECT_GE(first.bytes(), 32_MiB);
  EXPECT_NO_THROW(heap_t{32_MiB});
  std::string const text = text_of_error([] { heap_t other{64_MiB}; });
  EXPECT_TRUE(says(text, "cannot set CUDA's device heap to 67108864 bytes: the first heap of this process set it to 33554432"));
  auto const blocks = blocks_of(first, 100, 64);
  for (void* p : blocks) EXPECT_NE(p, nullptr);
  EXPECT_NO_THROW(heap_t{32_MiB}) << "the same size is no change, even after a kernel has used the heap";
  first.free(blocks);
  EXPECT_EQ(first.stats().live_allocations, 0u);
}

TEST(CudaMalloc, RefusesWhatAProcessWideHeapCannotDo) {
  heap_t heap{32_MiB};
  EXPECT_TRUE(says(text_of_error([&] { heap.reset(); }), "cannot be reset"));
  device_array<char> memory(4096);
  EXPECT_TRUE(says(text_of_error([&] { heap_t other{gpuheap::memory::region{memory.data(), 4096}}; }), "cannot lie in a given region"));
}

TEST(CudaMalloc, IsCopiedByKernels) {
  heap_t heap{32_MiB};
  auto const blocks = blocks_of(heap, 32, 4);
  device_array<void*> device(blocks);
  fill<<<1, 32>>>(device.data());
  for (unsigned i = 0; i < 32; ++i) {
    unsigned value = 0;
    heap.copy_to_host(&value, blocks[i], 4);
    EXPECT_EQ(value, i);
    value += 7;
    heap.copy_from_host(blocks[i], &value, 4);
    heap.copy_to_host(&value, blocks[i], 4);
    EXPECT_EQ(value, i + 7);
  }
  heap.free(blocks);
}

}  // namespace
