// What compute-sanitizer can be told of a heap's blocks: NVTX's calls for memory are the host's, so it learns the blocks that live between
// two kernels, and watches kernels that use blocks and ask for none.
//   compute-sanitizer nvtx_blocks inside      no error
//   compute-sanitizer nvtx_blocks outside     one thread writes behind the last block: an error, which without NVTX is none
//   compute-sanitizer nvtx_blocks asking      a kernel that asks for blocks: errors, though it does nothing wrong
#include <gpuheap/heap.hpp>
#include <gpuheap/leaks.hpp>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace gpuheap::literals;
using heap_t = gpuheap::heap<>;

struct ask {
  heap_t::ref_type heap;
  int** blocks;
  GPUHEAP_FN void operator()(unsigned i) const { blocks[i] = static_cast<int*>(heap.malloc(64)); }
};
struct use {
  int** blocks;
  unsigned last_bytes;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned w = 0; w < 16; ++w) blocks[i][w] = static_cast<int>(i);
    if (i == 99) *reinterpret_cast<char*>(blocks[i] + last_bytes / 4 - 1) = 'x';
  }
};

// Tells the tools of the heap's memory, and of each live block in it.
void tell(heap_t const& heap, gpuheap::memory::region where) {
  nvtxDomainHandle_t const domain = nvtxDomainCreateA("gpuheap");
  nvtxMemVirtualRangeDesc_t const range{where.bytes, where.base};
  nvtxMemHeapDesc_t pool{};
  pool.extCompatID = NVTX_EXT_COMPATID_MEM;
  pool.structSize = sizeof pool;
  pool.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  pool.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  pool.typeSpecificDescSize = sizeof range;
  pool.typeSpecificDesc = &range;
  nvtxMemHeapHandle_t const handle = nvtxMemHeapRegister(domain, &pool);
  if (reinterpret_cast<intptr_t>(handle) == -1) std::printf("no tool listens\n");
  std::vector<nvtxMemVirtualRangeDesc_t> regions;
  for (gpuheap::block_info const& block : heap.blocks()) regions.push_back({block.bytes, reinterpret_cast<void const*>(block.address)});
  std::vector<nvtxMemRegionHandle_t> handles(regions.size());
  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = handle;
  batch.regionCount = regions.size();
  batch.regionDescElementSize = sizeof regions[0];
  batch.regionDescElements = regions.data();
  batch.regionHandleElementsOut = handles.data();
  nvtxMemRegionsRegister(domain, &batch);
  std::printf("%zu blocks told\n", regions.size());
}

}  // namespace

int main(int count, char** arguments) {
  char const* const what = count > 1 ? arguments[1] : "inside";
  constexpr size_t bytes = 64 << 20;
  void *base = nullptr, *blocks = nullptr;
  if (cudaMalloc(&base, bytes) != cudaSuccess || cudaMalloc(&blocks, 200 * sizeof(int*)) != cudaSuccess) return std::printf("no GPU\n"), 2;
  heap_t heap{gpuheap::memory::region{base, bytes}};
  gpuheap::launch(100, ask{heap.ref(), static_cast<int**>(blocks)});
  cudaDeviceSynchronize();
  tell(heap, {base, bytes});
  gpuheap::launch(100, use{static_cast<int**>(blocks), std::strcmp(what, "outside") == 0 ? 84u : 64u});
  if (std::strcmp(what, "asking") == 0) gpuheap::launch(100, ask{heap.ref(), static_cast<int**>(blocks) + 100});
  std::printf("%s: %s\n", what, cudaGetErrorString(cudaDeviceSynchronize()));
}
