// Prints the times of malloc and free of each kind of heap side by side: release, hardened, checked. Plain nvcc, medians of kernels.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude -Ibuild/deps/cccl benchmarks/kinds/kinds.cu -o kinds && ./kinds [touch]
//
// "touch": each thread also writes 16 bytes of its block, and reads them before it frees it, as a program does.
#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace gpuheap::literals;

void require(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("kinds: %s: %s\n", cudaGetErrorName(status), cudaGetErrorString(status));
  std::exit(2);
}

template <class Ref>
__global__ void take(Ref heap, ulonglong2** out, size_t bytes, unsigned n, bool touch) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto* const p = static_cast<ulonglong2*>(heap.malloc(bytes));
  out[i] = p;
  if (touch && p != nullptr) *p = {i, ~0ull - i};
}
template <class Ref>
__global__ void give(Ref heap, ulonglong2** out, unsigned n, bool touch, unsigned* wrong) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  ulonglong2* const p = out[i];
  if (p == nullptr || (touch && (p->x != i || p->y != ~0ull - i))) atomicAdd(wrong, 1u);
  if (heap.free(p) != gpuheap::free_status::done) atomicAdd(wrong, 1u);
}

struct times {
  double malloc_us = 0, free_us = 0;
};
double median(std::vector<float>& all) {
  std::nth_element(all.begin(), all.begin() + static_cast<long>(all.size() / 2), all.end());
  return 1000.0 * all[all.size() / 2];
}

template <class Allocator>
times measure(gpuheap::heap<Allocator>& heap, unsigned threads, size_t bytes, bool touch) {
  constexpr unsigned rounds = 21, warm_up = 4, block = 256;
  ulonglong2** out;
  unsigned* wrong;
  require(cudaMalloc(&out, threads * sizeof *out));
  require(cudaMalloc(&wrong, sizeof *wrong));
  require(cudaMemset(wrong, 0, sizeof *wrong));
  cudaEvent_t e[3];
  for (auto& each : e) require(cudaEventCreate(&each));
  std::vector<float> mallocs, frees;
  unsigned const blocks = (threads + block - 1) / block;
  for (unsigned round = 0; round < rounds + warm_up; ++round) {
    require(cudaEventRecord(e[0]));
    take<<<blocks, block>>>(heap.ref(), out, bytes, threads, touch);
    require(cudaEventRecord(e[1]));
    give<<<blocks, block>>>(heap.ref(), out, threads, touch, wrong);
    require(cudaEventRecord(e[2]));
    require(cudaEventSynchronize(e[2]));
    float a = 0, b = 0;
    require(cudaEventElapsedTime(&a, e[0], e[1]));
    require(cudaEventElapsedTime(&b, e[1], e[2]));
    if (round < warm_up) continue;
    mallocs.push_back(a);
    frees.push_back(b);
  }
  unsigned bad = 0;
  require(cudaMemcpy(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost));
  if (bad != 0) std::printf("%u wrong answers of %s, %u threads, %zu bytes\n", bad, Allocator::traits.name, threads, bytes);
  heap.check();
  for (auto& each : e) require(cudaEventDestroy(each));
  require(cudaFree(out));
  require(cudaFree(wrong));
  return {median(mallocs), median(frees)};
}

template <class Allocator>
void print_registers(char const* name) {
  using ref = typename gpuheap::heap<Allocator>::ref_type;
  cudaFuncAttributes t, g;
  require(cudaFuncGetAttributes(&t, take<ref>));
  require(cudaFuncGetAttributes(&g, give<ref>));
  std::printf("%-24s registers of malloc %d, of free %d; bytes of frame %zu, %zu\n", name, t.numRegs, g.numRegs, t.localSizeBytes,
              g.localSizeBytes);
}

}  // namespace

int main(int count, char** arguments) {
  bool const touch = count > 1 && std::strcmp(arguments[1], "touch") == 0;
  using release = gpuheap::sharded_spans;
  using hardened = gpuheap::hardened<>;
  using alone = gpuheap::checked<release, gpuheap::checked_options{.quarantine_blocks = 0}>;
  using checked = gpuheap::checked<>;
  cudaDeviceProp device;
  require(cudaGetDeviceProperties(&device, 0));
  std::printf("%s; us of malloc / free, medians%s\n", device.name, touch ? ", blocks are written and read" : "");
  print_registers<release>("release");
  print_registers<hardened>("hardened");
  print_registers<alone>("checked, no quarantine");
  print_registers<checked>("checked");
  std::printf("%9s %6s | %15s | %15s %11s | %15s %11s | %15s %11s\n", "threads", "bytes", "release", "hardened", "ratio", "no quarantine",
              "ratio", "checked", "ratio");
  gpuheap::heap<release> r{12_GiB};
  gpuheap::heap<hardened> h{12_GiB};
  gpuheap::heap<alone> a{12_GiB};
  gpuheap::heap<checked> c{12_GiB};
  for (unsigned const threads : {100'000u, 1'000'000u}) {
    for (size_t const bytes : {16, 64, 256, 1024, 4096}) {
      times const base = measure(r, threads, bytes, touch);
      std::printf("%9u %6zu | %7.1f %7.1f", threads, bytes, base.malloc_us, base.free_us);
      for (times const& t : {measure(h, threads, bytes, touch), measure(a, threads, bytes, touch), measure(c, threads, bytes, touch)})
        std::printf(" | %7.1f %7.1f %5.2f %5.2f", t.malloc_us, t.free_us, t.malloc_us / base.malloc_us, t.free_us / base.free_us);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}
