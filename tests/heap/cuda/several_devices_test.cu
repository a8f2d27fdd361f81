// Heaps of several GPUs in one process. The tests skip on a machine with one GPU.
#include "brief_blocks.hpp"

#include <cuda_runtime.h>
#include <gpuheap/checked.hpp>
#include <gpuheap/leaks.hpp>

#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace test;

void check(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

// Each thread keeps one block, whose content names the device, and uses others for a short time.
template <class Ref>
__global__ void churn(Ref heap, unsigned device, void** kept, unsigned* wrong) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  use_brief_blocks(heap, simt::uint64_t{device} << 32 | i, wrong);
  auto* const mine = static_cast<unsigned*>(heap.malloc(64));
  if (mine != nullptr) *mine = device << 24 | i;
  kept[i] = mine;
}
template <class Ref>
__global__ void give_back(Ref heap, unsigned device, void** kept, unsigned* wrong) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (kept[i] == nullptr || *static_cast<unsigned*>(kept[i]) != (device << 24 | i)) atomicAdd(wrong, 1u);
  heap.free(kept[i]);
}

unsigned constexpr blocks = 64, threads = 256, num = blocks * threads;

// The heap, the stream and the arrays of one GPU.
template <class Heap>
struct site {
  template <class Size>
  site(int on, Size size) : device{on}, heap{size}, kept(num), wrong(1) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaDeviceSynchronize());
  }
  void start() {
    check(cudaSetDevice(device));
    churn<<<blocks, threads, 0, stream>>>(heap.ref(), static_cast<unsigned>(device), kept.data(), wrong.data());
    check(cudaGetLastError());
  }
  void finish(unsigned rounds) {
    check(cudaSetDevice(device));
    EXPECT_EQ(heap.stats(stream).live_allocations, num) << "device " << device << ", round " << rounds;
    give_back<<<blocks, threads, 0, stream>>>(heap.ref(), static_cast<unsigned>(device), kept.data(), wrong.data());
    check(cudaGetLastError());
    heap.check(stream);
    EXPECT_EQ(wrong.first(), 0u) << "device " << device << ", round " << rounds;
    EXPECT_EQ(heap.stats(stream).live_allocations, 0u);
  }

  int device;
  cudaStream_t stream{};
  Heap heap;
  device_array<void*> kept;
  device_array<unsigned> wrong;
};

int num_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
std::size_t free_bytes(int device) {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

class SeveralDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (num_devices() < 2) GTEST_SKIP() << "several GPUs: there is one";
  }
  void TearDown() override { (void)cudaSetDevice(0); }
};

template <class Heap, class Size>
void run_on_all(Size size) {
  std::vector<std::unique_ptr<site<Heap>>> sites;
  for (int device = 0; device < num_devices(); ++device) {
    check(cudaSetDevice(device));
    sites.push_back(std::make_unique<site<Heap>>(device, size));
  }
  for (unsigned round = 0; round < 5; ++round) {
    for (auto& each : sites) each->start();  // kernels of all devices run at once
    for (auto& each : sites) each->finish(round);
  }
  check(cudaSetDevice(0));
  sites.clear();  // the heaps of all devices end while the first device is current
  check(cudaGetLastError());
}

TEST_F(SeveralDevices, EachHasAHeap) { run_on_all<gpuheap::heap<>>(256_MiB); }
TEST_F(SeveralDevices, EachHasAHeapThatGrows) { run_on_all<gpuheap::heap<>>(gpuheap::growth{.initial = 64_MiB, .at_most = 4_GiB}); }
TEST_F(SeveralDevices, EachHasACheckedHeap) { run_on_all<gpuheap::heap<gpuheap::checked<>>>(256_MiB); }

TEST_F(SeveralDevices, AHostThreadForEach) {
  std::vector<std::thread> workers;
  for (int device = 0; device < num_devices(); ++device) {
    workers.emplace_back([device] {
      check(cudaSetDevice(device));
      site<gpuheap::heap<>> mine{device, 256_MiB};
      for (unsigned round = 0; round < 20; ++round) {
        mine.start();
        mine.finish(round);
      }
    });
  }
  for (std::thread& each : workers) each.join();
}

// The tests of free memory take a quarter of it, so that half of that quarter is more than what other processes take or free meanwhile.
// A heap that grows maps memory of its own device.
TEST_F(SeveralDevices, GrowthTakesMemoryOfTheHeapsDevice) {
  int const last = num_devices() - 1;
  std::size_t const before_first = free_bytes(0), before_last = free_bytes(last), more = before_last / 4;
  {
    gpuheap::heap<> heap{gpuheap::growth{.initial = 64_MiB, .at_most = 2 * more}};
    heap.grow(more);
    EXPECT_LT(free_bytes(last) + more / 2, before_last);
    EXPECT_GT(free_bytes(0) + more / 2, before_first);
    check(cudaSetDevice(0));
  }
  EXPECT_GT(free_bytes(last) + more / 2, before_last);
}

// A heap that ended while another device was current leaves no memory behind.
TEST_F(SeveralDevices, AHeapEndsWhileAnotherDeviceIsCurrent) {
  int const last = num_devices() - 1;
  std::size_t const before = free_bytes(last), part = before / 4;
  for (unsigned round = 0; round < 3; ++round) {
    check(cudaSetDevice(last));
    {
      gpuheap::heap<> heap{part};
      gpuheap::heap<> const moved{static_cast<gpuheap::heap<>&&>(heap)};
      check(cudaSetDevice(0));
    }
  }
  EXPECT_GT(free_bytes(last) + part / 2, before);
}

// Each member works on the heap's device, whichever device is current, and leaves the current device as it was.
TEST_F(SeveralDevices, MembersAreCalledWhileAnotherDeviceIsCurrent) {
  int const last = num_devices() - 1;
  check(cudaSetDevice(last));
  gpuheap::heap<> heap{gpuheap::growth{.initial = 64_MiB, .at_most = 1_GiB}};
  gpuheap::heap<gpuheap::checked<>> checked{64_MiB};
  device_array<void*> kept(num), also(num);
  device_array<unsigned> wrong(1);
  churn<<<blocks, threads>>>(heap.ref(), 1u, kept.data(), wrong.data());
  churn<<<blocks, threads>>>(checked.ref(), 1u, also.data(), wrong.data());
  check(cudaSetDevice(0));

  EXPECT_EQ(heap.device(), last);
  EXPECT_EQ(heap.stats().live_allocations, num);  // waits for the kernel, which runs in the null stream of the heap's device
  EXPECT_EQ(heap.check(), 0u);
  EXPECT_EQ(checked.check(), 0u);
  EXPECT_EQ(heap.blocks().size(), num);
  EXPECT_EQ(checked.report_leaks().blocks, std::uint64_t{num});
  EXPECT_EQ(heap.live_blocks().size(), 1u);
  EXPECT_EQ(heap.verify().problem, "");
  std::vector<void*> addresses(num);
  check(cudaMemcpy(addresses.data(), kept.data(), num * sizeof(void*), cudaMemcpyDefault));
  unsigned first = 0;
  heap.copy_to_host(&first, addresses[0], sizeof first);
  EXPECT_EQ(first, 1u << 24);
  heap.free(std::vector<void*>(addresses.begin(), addresses.begin() + num / 2));
  heap.free(gpuheap::device_span<void*>{kept.data() + num / 2, num / 2});
  EXPECT_EQ(heap.stats().live_allocations, 0u);
  heap.grow(256_MiB);
  EXPECT_GT(heap.trim(), 0u);
  heap.set_policy(gpuheap::exhaustion_policy::trap);
  heap.reset();
  checked.reset();
  EXPECT_EQ(checked.stats().live_allocations, 0u);
  int current = -1;
  check(cudaGetDevice(&current));
  EXPECT_EQ(current, 0);
  check(cudaDeviceSynchronize());
  EXPECT_EQ(wrong.first(), 0u);
}

// gpuheap::launch starts its kernel on the current device.
struct take_one {
  gpuheap::heap_ref<> heap;
  GPUHEAP_FN void operator()(unsigned) const { (void)heap.malloc(100); }
};
TEST_F(SeveralDevices, LaunchStartsKernelsOnTheCurrentDevice) {
  std::vector<std::unique_ptr<gpuheap::heap<>>> heaps;
  for (int device = 0; device < num_devices(); ++device) {
    check(cudaSetDevice(device));
    heaps.push_back(std::make_unique<gpuheap::heap<>>(64_MiB));
    gpuheap::launch(1000 + 100 * static_cast<unsigned>(device), take_one{heaps.back()->ref()});
  }
  for (int device = 0; device < num_devices(); ++device) {
    check(cudaSetDevice(device));
    heaps[static_cast<unsigned>(device)]->check();
    EXPECT_EQ(heaps[static_cast<unsigned>(device)]->stats().live_allocations, 1000u + 100u * static_cast<unsigned>(device));
  }
}

}  // namespace
