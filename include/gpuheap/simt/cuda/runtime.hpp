// The CUDA backend of runtime.hpp: the CUDA runtime's calls, whose error codes become exceptions.
#pragma once

#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#if GPUHEAP_HAS_HOST
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
// Says what to do if the machine has no suitable driver or GPU, or if the program was compiled for other GPUs. Returns "" for other errors.
[[nodiscard]] inline char const* advice_on(cudaError_t code) {
  switch (code) {
    case cudaErrorInsufficientDriver:
      return ": there is no NVIDIA driver, or it is too old for the CUDA that the program was built with: nvidia-smi shows its version";
    case cudaErrorNoDevice:
      return ": nvidia-smi lists the GPUs, and CUDA_VISIBLE_DEVICES may hide them";
    case cudaErrorNoKernelImageForDevice:
      return ": the program was compiled for other GPUs: compile with -arch=native, or set CMAKE_CUDA_ARCHITECTURES";
    default:
      return "";
  }
}
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse(cudaError_t code, char const* doing) {
  (void)cudaGetLastError();  // clears the error, which the runtime would report again at the next launch
  std::string const text =
      text_of("gpuheap: %s failed: %s: %s%s", doing, cudaGetErrorName(code), cudaGetErrorString(code), advice_on(code));
  if (code == cudaErrorMemoryAllocation) throw out_of_memory(text);
  throw device_error(text);
}
inline void check(cudaError_t code, char const* doing) {
  if (code != cudaSuccess) refuse(code, doing);
}
}  // namespace detail

// The number of the current device.
[[nodiscard]] inline int current_device() {
  int device = 0;
  detail::check(cudaGetDevice(&device), "looking for a GPU");
  return device;
}
// Makes a device current, and the earlier one again at the end of the scope.
class device_scope {
 public:
  explicit device_scope(int device) : before_{device}, device_{device} {
    // In a context that has failed, this call may answer with that error. The calls that follow report it, and there is nothing to switch.
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device_;
    if (device_ != before_) detail::check(cudaSetDevice(device_), "making a heap's GPU the current one");
  }
  ~device_scope() {
    if (device_ != before_) (void)cudaSetDevice(before_);
  }
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;

 private:
  int before_, device_;
};

// Gives each thread of later kernels of the current device `bytes` of stack, for kernels whose call depth the compiler does not know.
inline void set_stack_bytes(size_t bytes) { detail::check(cudaDeviceSetLimit(cudaLimitStackSize, bytes), "setting the size of the stack"); }

// Allocates `bytes` (> 0) of a kind of memory, aligned to at least 256 bytes. Throws out_of_memory, or std::bad_alloc for
// memory_kind::host.
[[nodiscard]] inline void* allocate(memory_kind kind, size_t bytes) {
  void* p = nullptr;
  switch (kind) {
    case memory_kind::device:
      detail::check(cudaMalloc(&p, bytes), "allocating device memory");
      break;
    case memory_kind::managed:
      detail::check(cudaMallocManaged(&p, bytes), "allocating managed memory");
      break;
    case memory_kind::pinned:
      detail::check(cudaHostAlloc(&p, bytes, cudaHostAllocMapped), "allocating pinned host memory");
      break;
    case memory_kind::host:
      p = ::operator new (bytes, std::align_val_t{4096});
      break;
  }
  return p;
}
// Frees memory of allocate(). Waits for the device, except for memory_kind::host. Never throws: the error of an earlier kernel stays for
// the next check. If a reset of the context has already freed the memory, the runtime refuses `p`, and this call clears that error.
inline void deallocate(memory_kind kind, void* p) noexcept {
  auto const forget = [](cudaError_t answer) {
    if (answer == cudaErrorInvalidValue) (void)cudaGetLastError();
  };
  switch (kind) {
    case memory_kind::device:
    case memory_kind::managed:
      forget(cudaFree(p));
      break;
    case memory_kind::pinned:
      forget(cudaFreeHost(p));
      break;
    case memory_kind::host:
      ::operator delete (p, std::align_val_t{4096});
      break;
  }
}
// Allocates device memory in stream order, from the current device's default pool. The pool keeps freed memory for later requests. Throws
// out_of_memory.
[[nodiscard]] inline void* allocate_async(size_t bytes, stream_ref stream) {
  cudaMemPool_t pool = nullptr;
  detail::check(cudaDeviceGetDefaultMemPool(&pool, current_device()), "asking for the device's memory pool");
  unsigned long long keep = ~0ull;
  detail::check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "setting what a memory pool keeps");
  void* p = nullptr;
  detail::check(cudaMallocAsync(&p, bytes, static_cast<cudaStream_t>(stream.native)), "allocating device memory from a pool");
  return p;
}
inline void deallocate_async(void* p, stream_ref stream) noexcept { (void)cudaFreeAsync(p, static_cast<cudaStream_t>(stream.native)); }
// copy() copies and fill() fills bytes of any kind of memory, in stream order. The host sees the result after synchronize().
inline void copy(void* to, void const* from, size_t bytes, stream_ref stream = {}) {
  detail::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream.native)), "copying memory");
}
inline void fill(void* to, unsigned char value, size_t bytes, stream_ref stream = {}) {
  auto const native = static_cast<cudaStream_t>(stream.native);
  cudaPointerAttributes where{};
  detail::check(cudaPointerGetAttributes(&where, to), "asking which memory a pointer points to");
  if (where.type == cudaMemoryTypeUnregistered) {  // pageable host memory, which the driver can copy but not fill
    detail::check(cudaStreamSynchronize(native), "running kernels");
    std::memset(to, value, bytes);
  } else {
    detail::check(cudaMemsetAsync(to, value, bytes, native), "filling memory");
  }
}
// synchronize() waits until all work of the stream is done, synchronize_device() until all work of the device is. Throws device_error if a
// kernel failed.
inline void synchronize(stream_ref stream) {
  detail::check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native)), "running kernels");
}
inline void synchronize_device() { detail::check(cudaDeviceSynchronize(), "running kernels"); }

// Makes a stream that does not synchronise with the default stream.
[[nodiscard]] inline stream_ref make_stream() {
  cudaStream_t s = nullptr;
  detail::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "creating a stream");
  return {s};
}
inline void destroy_stream(stream_ref stream) noexcept { (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream.native)); }

// Measures the device's time between two points of a stream.
class stopwatch {
 public:
  stopwatch() {
    detail::check(cudaEventCreate(&start_), "creating an event");
    cudaError_t const made = cudaEventCreate(&stop_);
    if (made != cudaSuccess) (void)cudaEventDestroy(start_);
    detail::check(made, "creating an event");
  }
  ~stopwatch() {
    (void)cudaEventDestroy(start_);
    (void)cudaEventDestroy(stop_);
  }
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;

  void start(stream_ref stream = {}) {
    detail::check(cudaEventRecord(start_, static_cast<cudaStream_t>(stream.native)), "recording an event");
  }
  void stop(stream_ref stream = {}) {
    detail::check(cudaEventRecord(stop_, static_cast<cudaStream_t>(stream.native)), "recording an event");
  }
  // Microseconds between the last start() and stop(). Waits for the stop.
  [[nodiscard]] double elapsed_us() {
    detail::check(cudaEventSynchronize(stop_), "running kernels");
    float ms = 0;
    detail::check(cudaEventElapsedTime(&ms, start_, stop_), "reading an event");
    return 1000.0 * ms;
  }

 private:
  cudaEvent_t start_{}, stop_{};
};

// Facts about the current device.
struct device_info {
  std::string backend;      // "cuda" or "simulator"
  std::string name;         // the GPU's name, from the driver
  int driver_version = 0;   // e.g. 13000; 0 in the simulator
  int runtime_version = 0;  // of the CUDA runtime that the program links
  int compute_major = 0, compute_minor = 0;
  unsigned num_sms = 0;
  size_t total_bytes = 0, free_bytes = 0;
};
[[nodiscard]] inline device_info query_device() {
  device_info info;
  info.backend = "cuda";
  int const device = current_device();
  cudaDeviceProp p{};
  detail::check(cudaGetDeviceProperties(&p, device), "asking what the GPU is");
  info.name = p.name;
  info.compute_major = p.major;
  info.compute_minor = p.minor;
  info.num_sms = static_cast<unsigned>(p.multiProcessorCount);
  detail::check(cudaDriverGetVersion(&info.driver_version), "asking for the driver's version");
  detail::check(cudaRuntimeGetVersion(&info.runtime_version), "asking for the runtime's version");
  detail::check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "asking for free memory");
  return info;
}

// The total and the free memory of the current device.
struct device_memory {
  size_t total_bytes = 0, free_bytes = 0;
};
[[nodiscard]] inline device_memory query_memory() {
  device_memory found;
  detail::check(cudaMemGetInfo(&found.free_bytes, &found.total_bytes), "asking for free memory");
  return found;
}

// Whether kernels on the current device can access pageable host memory (memory_kind::host).
[[nodiscard]] inline bool kernels_reach_host_memory() {
  int answer = 0;
  detail::check(cudaDeviceGetAttribute(&answer, cudaDevAttrPageableMemoryAccess, current_device()), "asking what memory the GPU reaches");
  return answer != 0;
}

// The size in bytes of the heap from which CUDA's own malloc serves kernels. Each context has one. Setting the size fails once a kernel
// that uses the heap has run.
[[nodiscard]] inline size_t builtin_heap_limit() {
  size_t bytes = 0;
  detail::check(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize), "reading the size of the toolkit's device heap");
  return bytes;
}
inline void set_builtin_heap_limit(size_t bytes) {
  detail::check(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes), "setting the size of the toolkit's device heap");
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// CUDA's own malloc and free for kernels, and whether this backend has them.
inline constexpr bool has_builtin_heap = true;
[[nodiscard]] GPUHEAP_FN inline void* builtin_malloc(size_t bytes) {
#if defined(__CUDA_ARCH__)
  return ::malloc(bytes);
#else
  (void)bytes;
  return nullptr;
#endif
}
GPUHEAP_FN inline void builtin_free(void* p) {
#if defined(__CUDA_ARCH__)
  ::free(p);
#else
  (void)p;
#endif
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
