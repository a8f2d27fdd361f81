// A program of device malloc through what a host program does around it. Knows nothing of gpuheap. lifetimes MODE..., each of:
//   blocks       contents, alignment and odd requests of many threads
//   streams      kernels in streams and of host threads at once
//   graph        kernels captured into a graph, which is the program's first use of device malloc if it is the first mode
//   launches     cooperative and extensible launches
//   reset        cudaDeviceReset, and all once more
//   fork         a child of a process that has not used CUDA yet
//   leak         leaves 5 blocks of 100 B and one of 3 MiB
//   fill BYTES   asks for BYTES in blocks of 1 MiB by two launches, and says how many each got
//   foreign      frees pointers that are no blocks
//   devices      blocks on every device of the machine, by turns, and once more after a reset of each
// Ends with 0 if all went well.
#include <sys/wait.h>
#include <unistd.h>

#include <cooperative_groups.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void require(bool good, char const* what) {
  if (good) return;
  ++failures;
  std::printf("FAILED: %s\n", what);
}
void require_ok(char const* what) {
  cudaError_t const error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return;
  ++failures;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(error));
}

__device__ unsigned size_of(unsigned i) { return i % 61 == 0 ? 5000 + i % 15000 : 1 + i * 37 % 700; }

__global__ void take(unsigned char** blocks, unsigned n, unsigned* bad) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto* const p = static_cast<unsigned char*>(malloc(size_of(i)));
  blocks[i] = p;
  if (p == nullptr || reinterpret_cast<size_t>(p) % 16 != 0) {
    atomicAdd(bad, 1);
    return;
  }
  for (unsigned k = 0; k < size_of(i); ++k) p[k] = static_cast<unsigned char>(i * 7 + k);
}
__global__ void deallocate(unsigned char** blocks, unsigned n, unsigned* bad) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || blocks[i] == nullptr) return;
  for (unsigned k = 0; k < size_of(i); ++k) {
    if (blocks[i][k] != static_cast<unsigned char>(i * 7 + k)) atomicAdd(bad, 1);
  }
  free(blocks[i]);
}
__global__ void odd_requests(unsigned* bad) {
  free(nullptr);
  void* const none = malloc(0);
  free(none);
  if (malloc(~size_t{0}) != nullptr || malloc(~size_t{0} - 4096) != nullptr || malloc(size_t{1} << 62) != nullptr) atomicAdd(bad, 1);
  char* const empty = new char[0];
  delete[] empty;
}
__global__ void twice(unsigned* bad) {
  void* const p = malloc(40 + threadIdx.x);
  if (p == nullptr) atomicAdd(bad, 1);
  free(p);
}
__global__ void together(unsigned* bad) {
  auto const grid = cooperative_groups::this_grid();
  int* const p = new int(7);
  grid.sync();
  if (p == nullptr || *p != 7) atomicAdd(bad, 1);
  delete p;
}

// Nothing of the host's malloc may change.
void check_host_malloc() {
  std::vector<char*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(static_cast<char*>(std::malloc(100)));
  for (char* p : blocks) {
    std::memset(p, 1, 100);
    std::free(p);
  }
}

void blocks() {
  unsigned const n = 20000;
  unsigned char** all = nullptr;
  unsigned *bad = nullptr, found = 0;
  (void)cudaMalloc(&all, n * sizeof *all);
  (void)cudaMalloc(&bad, sizeof *bad);
  (void)cudaMemset(bad, 0, sizeof *bad);
  for (int r = 0; r < 3; ++r) {
    take<<<(n + 127) / 128, 128>>>(all, n, bad);
    deallocate<<<(n + 127) / 128, 128>>>(all, n, bad);
  }
  odd_requests<<<1, 1>>>(bad);
  (void)cudaMemcpy(&found, bad, sizeof found, cudaMemcpyDeviceToHost);
  require_ok("blocks");
  require(found == 0, "blocks are served, aligned, and keep what is written to them");
  (void)cudaFree(all);
  (void)cudaFree(bad);
  check_host_malloc();
}

void streams() {
  std::vector<std::thread> workers;
  std::vector<unsigned> found(6);
  for (unsigned w = 0; w < found.size(); ++w) {
    workers.emplace_back([&found, w] {
      cudaStream_t stream = nullptr;
      (void)cudaStreamCreate(&stream);
      unsigned const n = 3000;
      unsigned char** all = nullptr;
      unsigned* bad = nullptr;
      (void)cudaMalloc(&all, n * sizeof *all);
      (void)cudaMalloc(&bad, sizeof *bad);
      (void)cudaMemsetAsync(bad, 0, sizeof *bad, stream);
      for (int r = 0; r < 10; ++r) {
        take<<<(n + 127) / 128, 128, 0, stream>>>(all, n, bad);
        deallocate<<<(n + 127) / 128, 128, 0, stream>>>(all, n, bad);
      }
      (void)cudaMemcpyAsync(&found[w], bad, sizeof found[w], cudaMemcpyDeviceToHost, stream);
      (void)cudaStreamSynchronize(stream);
      (void)cudaStreamDestroy(stream);
    });
  }
  for (std::thread& w : workers) w.join();
  require_ok("streams");
  for (unsigned const f : found) require(f == 0, "streams of host threads");
}

void graph() {
  unsigned *bad = nullptr, found = 0;
  (void)cudaMalloc(&bad, sizeof *bad);
  (void)cudaMemset(bad, 0, sizeof *bad);
  cudaStream_t stream = nullptr;
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t ready = nullptr;
  (void)cudaStreamCreate(&stream);
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess, "a capture begins");
  twice<<<64, 64, 0, stream>>>(bad);
  twice<<<64, 64, 0, stream>>>(bad);
  require(cudaStreamEndCapture(stream, &captured) == cudaSuccess, "a capture ends");
  require(cudaGraphInstantiate(&ready, captured, 0) == cudaSuccess, "a graph is made");
  for (int r = 0; r < 10; ++r) require(cudaGraphLaunch(ready, stream) == cudaSuccess, "a graph is launched");
  (void)cudaStreamSynchronize(stream);
  (void)cudaMemcpy(&found, bad, sizeof found, cudaMemcpyDeviceToHost);
  require_ok("graph");
  require(found == 0, "requests of a graph are served");
  (void)cudaGraphExecDestroy(ready);
  (void)cudaGraphDestroy(captured);
  (void)cudaStreamDestroy(stream);
  (void)cudaFree(bad);
}

void launches() {
  unsigned *bad = nullptr, found = 0;
  (void)cudaMalloc(&bad, sizeof *bad);
  (void)cudaMemset(bad, 0, sizeof *bad);
  void* arguments[] = {&bad};
  require(cudaLaunchCooperativeKernel(together, dim3(8), dim3(64), arguments) == cudaSuccess, "a cooperative launch");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(64);
  require(cudaLaunchKernelEx(&config, twice, bad) == cudaSuccess, "an extensible launch");
  require(cudaLaunchKernel(twice, dim3(8), dim3(64), arguments) == cudaSuccess, "a launch by name");
  (void)cudaMemcpy(&found, bad, sizeof found, cudaMemcpyDeviceToHost);
  require_ok("launches");
  require(found == 0, "requests of all kinds of launches are served");
  (void)cudaFree(bad);
}

__global__ void leave() {
  if (threadIdx.x < 5) *static_cast<int*>(malloc(100)) = 1;
  if (threadIdx.x == 5) *static_cast<int*>(malloc(3 << 20)) = 1;
}

__global__ void ask_mebibyte(unsigned* got) {
  if (malloc(1 << 20) != nullptr) atomicAdd(got, 1);
}
void fill(unsigned long long bytes) {
  unsigned *got = nullptr, served[2] = {0, 0};
  (void)cudaMalloc(&got, 2 * sizeof *got);
  (void)cudaMemset(got, 0, 2 * sizeof *got);
  auto const n = static_cast<unsigned>(bytes >> 20);
  for (int k = 0; k < 2; ++k) {
    ask_mebibyte<<<n / 2, 1>>>(got + k);
    require_ok("fill");
  }
  (void)cudaMemcpy(served, got, sizeof served, cudaMemcpyDeviceToHost);
  std::printf("%u and %u of %u blocks of 1 MiB\n", served[0], served[1], n / 2);
  (void)cudaFree(got);
}

__global__ void free_others(char* memory) {
  free(memory + 64);
  free(reinterpret_cast<void*>(0x1234567));
  char* const p = static_cast<char*>(malloc(100));
  free(p + 4);
  free(p);
}
void foreign() {
  char* memory = nullptr;
  (void)cudaMalloc(&memory, 4096);
  free_others<<<1, 1>>>(memory);
  require_ok("foreign pointers");
}

void devices() {
  int count = 0;
  require(cudaGetDeviceCount(&count) == cudaSuccess && count > 0, "the devices are counted");
  for (int round = 0; round < 3; ++round) {
    for (int device = 0; device < count; ++device) {
      require(cudaSetDevice(device) == cudaSuccess, "a device is chosen");
      if (round == 2) require(cudaDeviceReset() == cudaSuccess, "a device is reset");
      blocks();
    }
  }
  (void)cudaSetDevice(0);
}

void run(std::string const& mode, unsigned long long bytes) {
  if (mode == "blocks") return blocks();
  if (mode == "streams") return streams();
  if (mode == "graph") return graph();
  if (mode == "launches") return launches();
  if (mode == "foreign") return foreign();
  if (mode == "devices") return devices();
  if (mode == "fill") return fill(bytes);
  if (mode == "leak") {
    leave<<<1, 32>>>();
    return require_ok("leak");
  }
  if (mode == "reset") {
    require(cudaDeviceReset() == cudaSuccess, "a device is reset");
    blocks();
    return graph();
  }
  if (mode == "fork") {
    if (pid_t const child = fork(); child == 0) {
      blocks();
      std::fflush(stdout);
      std::exit(failures);
    } else {
      int status = 0;
      require(waitpid(child, &status, 0) == child && status == 0, "a child of fork()");
    }
    return blocks();
  }
  require(false, ("no mode of that name: " + mode).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    std::string const mode = arguments[i];
    unsigned long long const bytes = mode == "fill" && i + 1 < count ? std::strtoull(arguments[++i], nullptr, 10) : 0;
    run(mode, bytes);
  }
  std::printf("%s\n", failures == 0 ? "passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
