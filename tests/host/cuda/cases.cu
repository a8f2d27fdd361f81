// A program of the CUDA runtime for a GPU: each way to use memory, with a result that the CPU checks. cases PATTERN; it prints nothing that
// differs between runs.

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(cudaError_t result, char const* what) {
  if (result == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(result));
  std::exit(3);
}

__global__ void add_one(unsigned* to, unsigned const* from, unsigned num) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num) to[i] = from[i] + 1;
}

__constant__ unsigned factor;
__global__ void scale(unsigned* to, unsigned const* from, unsigned num) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num) to[i] = from[i] * factor;
}

void launch(void (*kernel)(unsigned*, unsigned const*, unsigned), unsigned* to, unsigned const* from, unsigned num,
            cudaStream_t stream = nullptr) {
  kernel<<<(num + 255) / 256, 256, 0, stream>>>(to, from, num);
  check(cudaGetLastError(), "launch");
}

template <class T>
T* allocate(std::size_t num) {
  T* out = nullptr;
  check(cudaMalloc(&out, num * sizeof(T)), "cudaMalloc");
  return out;
}

void expect(std::vector<unsigned> const& values, unsigned wanted, char const* what) {
  for (unsigned const value : values) {
    if (value != wanted) {
      std::printf("%s: %u in place of %u\n", what, value, wanted);
      std::exit(4);
    }
  }
}

// Each round: 2 cudaMalloc, 1 copy up, 2 kernels, 1 copy down, 2 cudaFree. Before: 1 copy to a symbol.
void rounds() {
  unsigned const three = 3;
  check(cudaMemcpyToSymbol(factor, &three, sizeof three), "to symbol");
  for (unsigned round = 0; round < 8; ++round) {
    unsigned const num = 100000 + 1000 * (round % 4);
    std::vector<unsigned> values(num, round);
    auto* const first = allocate<unsigned>(num);
    auto* const second = allocate<unsigned>(num);
    check(cudaMemcpy(first, values.data(), num * 4, cudaMemcpyHostToDevice), "up");
    launch(add_one, second, first, num);
    launch(scale, first, second, num);
    check(cudaMemcpy(values.data(), first, num * 4, cudaMemcpyDeviceToHost), "down");
    check(cudaFree(second), "free");
    check(cudaFree(first), "free");
    expect(values, (round + 1) * 3, "rounds");
  }
}

// 4 + 3 + 2 + 1 temporaries over a block that is kept.
void phases() {
  unsigned const num = 1 << 16;
  std::vector<unsigned> values(num, 0);
  auto* const kept = allocate<unsigned>(num);
  check(cudaMemcpy(kept, values.data(), num * 4, cudaMemcpyHostToDevice), "up");
  for (unsigned phase = 4; phase > 0; --phase) {
    std::vector<unsigned*> temporaries;
    for (unsigned i = 0; i < phase; ++i) temporaries.push_back(allocate<unsigned>(std::size_t{num} << i));
    unsigned* from = kept;
    for (unsigned* const to : temporaries) {
      launch(add_one, to, from, num);
      from = to;
    }
    launch(add_one, kept, from, num);
    for (unsigned* const each : temporaries) check(cudaFree(each), "free");
  }
  check(cudaMemcpy(values.data(), kept, num * 4, cudaMemcpyDeviceToHost), "down");
  check(cudaFree(kept), "free");
  expect(values, 4 + 3 + 2 + 1 + 4, "phases");
}

// Device, managed, pinned, pitched, stream-ordered and registered memory, copies in streams, and sets.
void kinds() {
  unsigned const num = 1 << 14;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  unsigned* pinned = nullptr;
  check(cudaMallocHost(&pinned, num * 4), "pinned");
  unsigned* managed = nullptr;
  check(cudaMallocManaged(&managed, num * 4), "managed");
  unsigned* ordered = nullptr;
  check(cudaMallocAsync(&ordered, num * 4, stream), "ordered");
  void* pitched = nullptr;
  std::size_t pitch = 0;
  check(cudaMallocPitch(&pitched, &pitch, 1000, 64), "pitched");
  std::vector<unsigned> host(num, 5);
  check(cudaHostRegister(host.data(), num * 4, cudaHostRegisterDefault), "register");
  for (unsigned i = 0; i < num; ++i) pinned[i] = 7;
  check(cudaMemcpyAsync(ordered, pinned, num * 4, cudaMemcpyHostToDevice, stream), "up");
  launch(add_one, managed, ordered, num, stream);
  check(cudaMemcpyAsync(host.data(), managed, num * 4, cudaMemcpyDefault, stream), "down");
  check(cudaMemset2DAsync(pitched, pitch, 1, 1000, 64, stream), "set");
  std::vector<char> rows(1000 * 64);
  check(cudaMemcpy2DAsync(rows.data(), 1000, pitched, pitch, 1000, 64, cudaMemcpyDeviceToHost, stream), "rows");
  check(cudaFreeAsync(ordered, stream), "free");
  check(cudaStreamSynchronize(stream), "synchronise");
  expect(host, 8, "kinds");
  for (char const byte : rows) {
    if (byte != 1) std::exit(4);
  }
  check(cudaHostUnregister(host.data()), "unregister");
  check(cudaFree(pitched), "free");
  check(cudaFree(managed), "free");
  check(cudaFreeHost(pinned), "free");
  check(cudaStreamDestroy(stream), "destroy");
}

void threads() {
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; ++t) {
    all.emplace_back([t] {
      unsigned const num = 5000 + t;
      std::vector<unsigned> values(num, t);
      for (unsigned i = 0; i < 20; ++i) {
        auto* const first = allocate<unsigned>(num);
        auto* const second = allocate<unsigned>(num);
        check(cudaMemcpy(first, values.data(), num * 4, cudaMemcpyHostToDevice), "up");
        launch(add_one, second, first, num);
        check(cudaMemcpy(values.data(), second, num * 4, cudaMemcpyDeviceToHost), "down");
        check(cudaFree(first), "free");
        check(cudaFree(second), "free");
      }
      expect(values, t + 20, "threads");
    });
  }
  for (std::thread& each : all) each.join();
}

// Relies on the wait that a free implies: a kernel still writes the block that is freed, and the next block of that size must not show it.
void freed_early() {
  unsigned const num = 1 << 22;
  std::vector<unsigned> values(num, 9);
  for (int i = 0; i < 10; ++i) {
    auto* const scratch = allocate<unsigned>(num);
    check(cudaMemset(scratch, 0, num * 4), "set");
    for (int k = 0; k < 20; ++k) launch(add_one, scratch, scratch, num);
    check(cudaFree(scratch), "free");
    auto* const fresh = allocate<unsigned>(num);
    check(cudaMemcpy(fresh, values.data(), num * 4, cudaMemcpyHostToDevice), "up");
    check(cudaMemcpy(values.data(), fresh, num * 4, cudaMemcpyDeviceToHost), "down");
    check(cudaFree(fresh), "free");
    expect(values, 9, "freed early");
  }
}

// A block on each device; all are live at once, and freed while the last device is the current one.
void devices() {
  int num_devices = 0;
  unsigned const num = 1 << 12;
  check(cudaGetDeviceCount(&num_devices), "count");
  std::vector<unsigned*> blocks;
  for (int device = 0; device < num_devices; ++device) {
    check(cudaSetDevice(device), "device");
    blocks.push_back(allocate<unsigned>(num));
    check(cudaMemset(blocks.back(), 0, num * 4), "set");
    launch(add_one, blocks.back(), blocks.back(), num);
  }
  std::vector<unsigned> values(num);
  for (unsigned* const each : blocks) {
    check(cudaMemcpy(values.data(), each, num * 4, cudaMemcpyDefault), "down");
    expect(values, 1, "devices");
  }
  for (unsigned* const each : blocks) check(cudaFree(each), "free");
}

// The device's context ends and comes again, with the same handle.
void resets() {
  for (int i = 0; i < 3; ++i) {
    rounds();
    check(cudaDeviceReset(), "reset");
  }
}

// 1 cudaMalloc of 64 MiB is never freed.
void leak() { allocate<unsigned>(1 << 24); }

// Time of a request and its free, without the first, and of a launch. For the eye: it differs between runs.
void many() {
  auto* const block = allocate<unsigned>(1024);
  auto const clock = [] { return std::chrono::steady_clock::now(); };
  auto const ns = [](auto from, auto until, int num) { return std::chrono::duration<double, std::nano>(until - from).count() / num; };
  auto const start = clock();
  for (int i = 0; i < 2000; ++i) check(cudaFree(allocate<unsigned>(1024)), "free");
  auto const between = clock();
  for (int i = 0; i < 20000; ++i) launch(add_one, block, block, 1);
  auto const end = clock();
  check(cudaDeviceSynchronize(), "synchronise");
  check(cudaFree(block), "free");
  std::fprintf(stderr, "%.0f ns for cudaMalloc and cudaFree, %.0f ns for a launch\n", ns(start, between, 2000), ns(between, end, 20000));
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::function<void()>> const patterns{{"rounds", rounds},           {"phases", phases},   {"kinds", kinds},
                                                              {"threads", threads},         {"leak", leak},       {"many", many},
                                                              {"freed_early", freed_early}, {"devices", devices}, {"resets", resets}};
  if (count != 2 || !patterns.contains(arguments[1])) {
    std::fprintf(stderr, "cases PATTERN\n");
    return 2;
  }
  patterns.at(arguments[1])();
  std::printf("%s: right\n", arguments[1]);
  return 0;
}
