// CUDA's own malloc and free fail, without any code of this project. Exit code 1: a round went wrong.
//
//   nvcc -std=c++17 -O3 -arch=sm_90 tests/hazards/cuda_heap.cu -o cuda_heap
//   ./cuda_heap 5 20 1     # LISTS ROUNDS SEED; on an H200, CUDA 13.0, an illegal address ended the 5th round, in another process the 11th
//
// In a round one lane of each of 32,768 warps asks for a block, and the warp fills it. The next kernels check and free all blocks.
// LISTS = n > 0: a block has the bytes of 17 lists, each of 16 bytes and 16 bytes times a power of two below 2^n. From n = 5 on, one block
//                has 12 MiB. coalesce_dynamic asks for the lists of a graph in this way.
// LISTS = 0:     blocks of 1024 and 8192 bytes in turn.
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr unsigned num_warps = 32768, block_threads = 256, num_blocks = num_warps / (block_threads / 32);

struct counts {
  unsigned failed, wrong;
};

__device__ unsigned warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

__global__ void make(unsigned** blocks, unsigned long long const* bytes, counts* found) {
  unsigned const warp = warp_number(), lane = threadIdx.x % 32;
  unsigned* block = nullptr;
  if (lane == 0) {
    block = static_cast<unsigned*>(malloc(bytes[warp]));
    blocks[warp] = block;
    if (block == nullptr) atomicAdd(&found->failed, 1u);
  }
  block = reinterpret_cast<unsigned*>(__shfl_sync(~0u, reinterpret_cast<unsigned long long>(block), 0));
  if (block == nullptr) return;
  for (unsigned long long i = lane; i < bytes[warp] / 4; i += 32) block[i] = warp;
}

__global__ void check(unsigned* const* blocks, unsigned long long const* bytes, counts* found) {
  unsigned const warp = warp_number(), lane = threadIdx.x % 32;
  if (blocks[warp] == nullptr) return;
  bool wrong = false;
  for (unsigned long long i = lane; i < bytes[warp] / 4; i += 32) wrong |= blocks[warp][i] != warp;
  if (__any_sync(~0u, wrong) && lane == 0) atomicAdd(&found->wrong, 1u);
}

__global__ void drop(unsigned* const* blocks) {
  if (threadIdx.x % 32 == 0) free(blocks[warp_number()]);
}

// Waits for the device. Returns whether all calls so far succeeded, and prints why if not.
bool succeeded(int round) {
  cudaError_t const status = cudaDeviceSynchronize();
  if (status != cudaSuccess) std::printf("round %d: %s\n", round, cudaGetErrorString(status));
  return status == cudaSuccess;
}

std::vector<unsigned long long> sizes(int lists, unsigned seed) {
  std::vector<unsigned long long> bytes(num_warps);
  std::srand(seed);
  for (unsigned warp = 0; warp < num_warps; ++warp) {
    if (lists == 0) bytes[warp] = warp % 2 == 0 ? 1024 : 8192;
    for (int list = 0; lists > 0 && list < 17; ++list) bytes[warp] += 16 + (16ull << (std::rand() % lists));
  }
  if (lists >= 5) bytes[0] = 12ull << 20;
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  int const lists = argc > 1 ? std::atoi(argv[1]) : 5, rounds = argc > 2 ? std::atoi(argv[2]) : 20,
            seed = argc > 3 ? std::atoi(argv[3]) : 1;
  if (lists < 0 || lists > 16 || rounds < 1) {
    std::fprintf(stderr, "cuda_heap: LISTS is 0 to 16 and ROUNDS at least 1: usage: cuda_heap [LISTS [ROUNDS [SEED]]]\n");
    return 2;
  }
  auto const bytes = sizes(lists, static_cast<unsigned>(seed));
  unsigned long long* device_bytes = nullptr;
  unsigned** blocks = nullptr;
  counts* found = nullptr;
  cudaError_t made = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8ull << 30);
  if (made == cudaSuccess) made = cudaMalloc(&device_bytes, num_warps * sizeof *device_bytes);
  if (made == cudaSuccess) made = cudaMalloc(&blocks, num_warps * sizeof *blocks);
  if (made == cudaSuccess) made = cudaMalloc(&found, sizeof *found);
  if (made == cudaSuccess) made = cudaMemcpy(device_bytes, bytes.data(), num_warps * sizeof *device_bytes, cudaMemcpyHostToDevice);
  if (made != cudaSuccess) {
    std::fprintf(stderr, "cuda_heap: cannot begin: %s: the program needs a GPU with 9 GiB of free memory\n", cudaGetErrorString(made));
    return 2;
  }
  for (int round = 1; round <= rounds; ++round) {
    cudaMemset(found, 0, sizeof *found);
    make<<<num_blocks, block_threads>>>(blocks, device_bytes, found);
    if (!succeeded(round)) return 1;
    check<<<num_blocks, block_threads>>>(blocks, device_bytes, found);
    if (!succeeded(round)) return 1;
    counts seen{};
    cudaMemcpy(&seen, found, sizeof seen, cudaMemcpyDeviceToHost);
    if (seen.failed != 0 || seen.wrong != 0) {
      std::printf("round %d: %u requests failed, %u blocks have wrong contents\n", round, seen.failed, seen.wrong);
      return 1;
    }
    drop<<<num_blocks, block_threads>>>(blocks);
    if (!succeeded(round)) return 1;
  }
  std::printf("%d rounds are right\n", rounds);
}
