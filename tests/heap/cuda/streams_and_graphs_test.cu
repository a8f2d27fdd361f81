// Kernels of several streams and replayed graphs use one heap at once.
#include "brief_blocks.hpp"

#include <cuda_runtime.h>
#include <cuda/stream_ref>

namespace {

using namespace test;

void check(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

// Each thread allocates, fills, verifies and frees a few times.
__global__ void churn(gpuheap::heap_ref<> heap, unsigned seed, unsigned* wrong) {
  use_brief_blocks(heap, simt::uint64_t{seed} << 32 | (blockIdx.x * blockDim.x + threadIdx.x), wrong);
}
// Kernels of a graph that hand blocks from one to the next.
__global__ void make(gpuheap::heap_ref<> heap, unsigned** out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = heap.create<unsigned>(threadIdx.x);
}
__global__ void use(gpuheap::heap_ref<> heap, unsigned** in, unsigned* wrong) {
  unsigned* const p = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (p == nullptr || *p != threadIdx.x) atomicAdd(wrong, 1u);
  heap.destroy(p);
}

TEST(StreamsAndGraphs, ShareOneHeap) {
  gpuheap::heap<> heap{512_MiB};
  simt::synchronize({});
  device_array<unsigned> wrong(1);
  constexpr unsigned num_streams = 4;
  cudaStream_t streams[num_streams];
  for (auto& s : streams) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));

  // Two graphs over the same heap, captured from a stream.
  cudaGraphExec_t graphs[2];
  std::vector<device_array<unsigned*>> handed;
  for (unsigned g = 0; g < 2; ++g) {
    handed.emplace_back(64u * 256u);
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    make<<<64, 256, 0, streams[0]>>>(heap.ref(), handed.back().data());
    churn<<<32, 256, 0, streams[0]>>>(heap.ref(), 100 + g, wrong.data());
    use<<<64, 256, 0, streams[0]>>>(heap.ref(), handed.back().data(), wrong.data());
    check(cudaStreamEndCapture(streams[0], &graph));
    check(cudaGraphInstantiate(&graphs[g], graph, 0));
    check(cudaGraphDestroy(graph));
  }
  for (unsigned round = 0; round < 10; ++round) {
    check(cudaGraphLaunch(graphs[0], streams[0]));
    check(cudaGraphLaunch(graphs[1], streams[1]));
    churn<<<64, 256, 0, streams[2]>>>(heap.ref(), 2 * round, wrong.data());
    churn<<<64, 192, 0, streams[3]>>>(heap.ref(), 2 * round + 1, wrong.data());
  }
  check(cudaDeviceSynchronize());
  EXPECT_EQ(wrong.first(), 0u);
  gpuheap::statistics const s = heap.stats();
  EXPECT_EQ(s.live_allocations, 0u);
  EXPECT_EQ(s.live_bytes, 0u);
  EXPECT_EQ(s.failed_requests + s.double_frees + s.foreign_frees, 0u);

  // A reset in stream order between two replays.
  check(cudaGraphLaunch(graphs[0], streams[0]));
  heap.reset(streams[0]);
  check(cudaGraphLaunch(graphs[0], streams[0]));
  EXPECT_EQ(heap.stats(streams[0]).live_allocations, 0u);
  EXPECT_EQ(wrong.first(), 0u);
  for (auto g : graphs) check(cudaGraphExecDestroy(g));
  for (auto s : streams) check(cudaStreamDestroy(s));
}

// The host's calls that are safe while kernels of another stream use the heap.
TEST(StreamsAndGraphs, HostCallsBesideKernels) {
  gpuheap::heap<> heap{512_MiB};
  simt::synchronize({});
  device_array<unsigned> wrong(1);
  cudaStream_t busy, other;
  check(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
  check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (unsigned round = 0; round < 20; ++round) {
    auto const mine = blocks_of(heap, 1000, 100, {.stream = {other}});  // which waits for the device
    for (unsigned n = 0; n < 10; ++n) churn<<<256, 256, 0, busy>>>(heap.ref(), 100 * round + n, wrong.data());
    gpuheap::statistics const s = heap.stats(other);
    EXPECT_LE(s.live_bytes, heap.at_most());
    EXPECT_LE(s.live_allocations, heap.at_most() / 16);
    for (gpuheap::live_size const& size : heap.live_blocks(other)) EXPECT_LE(size.blocks, heap.at_most() / 16);
    EXPECT_EQ(heap.check(cuda::stream_ref{other}), 0u);
    heap.free(mine, other);
    check(cudaStreamSynchronize(busy));
    EXPECT_EQ(heap.stats(busy).live_allocations, 0u);
  }
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(heap.verify().problem, "");
  check(cudaStreamDestroy(busy));
  check(cudaStreamDestroy(other));
}

}  // namespace
