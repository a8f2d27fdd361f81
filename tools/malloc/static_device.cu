// The device code of libgpuheap_malloc.a: the functions that a program's kernels call as malloc, free, and new of over-aligned types. The
// file is compiled with at most 32 registers, because ptxas assumes that these functions keep all registers from R22 on
// (docs/unchanged.md). The heap's code is compiled here in a namespace of its own, so that the linker cannot take instead a function of the
// same name that uses more registers.
#include <gpuheap/allocators/sharded_spans.hpp>
#if defined(GPUHEAP_STATIC_HARDENED)
#include <gpuheap/hardened.hpp>
#endif

#include "tools/malloc/beside_captures.hpp"
#include "tools/malloc/provider_table.hpp"
#include "tools/malloc/static_device.hpp"

#if defined(GPUHEAP_STATIC_HARDENED)
using serving = gpuheap::hardened<gpuheap::sharded_spans>;
#else
using serving = gpuheap::sharded_spans;
#endif
using state = gpuheap::device_malloc::device_state<serving>;

extern "C" {
__constant__ uint4 gpuheap_malloc_state[(sizeof(state) + sizeof(uint4) - 1) / sizeof(uint4)];
}

// Device functions only: the host's malloc and free are untouched.
#if GPUHEAP_DEVICE_PASS
namespace {
__device__ __forceinline__ state const& served() { return *reinterpret_cast<state const*>(gpuheap_malloc_state); }
}  // namespace

extern "C" {
__device__ __attribute__((used)) void* malloc(size_t bytes) noexcept { return served().malloc(bytes); }
__device__ __attribute__((used)) void* __cuda_syscall_aligned_malloc(size_t bytes, size_t alignment) {
  return served().aligned_malloc(bytes, alignment);
}
__device__ __attribute__((used)) void free(void* p) noexcept { served().free(p); }
}
#endif

namespace gpuheap::device_malloc {

provider const& static_provider() {
  static constexpr provider table = provider_of<serving>(serving::traits.name);
  return table;
}

bool write_static_state(void const* state_bytes) {
  beside_captures const relaxed;
  bool const clean = cudaPeekAtLastError() == cudaSuccess;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return false;
  bool const done =
      cudaMemcpyToSymbolAsync(gpuheap_malloc_state, state_bytes, sizeof(state), 0, cudaMemcpyHostToDevice, stream) == cudaSuccess &&
      cudaStreamSynchronize(stream) == cudaSuccess;
  (void)cudaStreamDestroy(stream);
  if (!done && clean) (void)cudaGetLastError();  // clears the error of these calls; an earlier error of the program stays
  return done;
}

}  // namespace gpuheap::device_malloc
