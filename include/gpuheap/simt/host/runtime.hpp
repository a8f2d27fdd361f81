// The host backend of runtime.hpp. Device memory is memory of the process, streams have no pending work, and a stopwatch reads the host's
// steady clock.
#pragma once

#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/types.hpp>

#include <chrono>
#include <cstring>
#include <string>

#include <gpuheap_simulator/faults.hpp>
#include <gpuheap_simulator/memory.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
// Throws if a test has asked the simulator to make this call fail.
inline void may_fail(char const* doing) {
  if (::gpuheap::simulator::call_fails()) throw device_error(text_of("gpuheap: %s failed: a fault was injected", doing));
}
}  // namespace detail

// Allocates `bytes` (> 0), aligned to 4096 bytes. Throws out_of_memory. All kinds of memory are the same on this backend.
[[nodiscard]] inline void* allocate(memory_kind, size_t bytes) {
  void* const p = ::gpuheap::simulator::call_fails() ? nullptr : ::gpuheap::simulator::allocate(bytes);
  if (p == nullptr) {
    throw out_of_memory("gpuheap: allocating " + ::std::to_string(bytes) + " bytes of simulated device memory failed: the system has " +
                        ::std::to_string(::gpuheap::simulator::describe_device().free_bytes) + " bytes available");
  }
  return p;
}
// Frees memory of allocate().
inline void deallocate(memory_kind, void* p) noexcept { ::gpuheap::simulator::deallocate(p); }
// Allocates in stream order. The simulator's streams have no pending work, so this is allocate().
[[nodiscard]] inline void* allocate_async(size_t bytes, stream_ref) { return allocate(memory_kind::device, bytes); }
inline void deallocate_async(void* p, stream_ref) noexcept { deallocate(memory_kind::device, p); }
// copy() copies and fill() fills bytes of any kind of memory. The work is done when the call returns.
inline void copy(void* to, void const* from, size_t bytes, stream_ref = {}) {
  detail::may_fail("copying memory");
  if (bytes != 0) ::std::memmove(to, from, bytes);
}
inline void fill(void* to, unsigned char value, size_t bytes, stream_ref = {}) {
  detail::may_fail("filling memory");
  if (bytes != 0) ::std::memset(to, value, bytes);
}
// Kernels have ended when launch() returns, so there is nothing to wait for.
inline void synchronize(stream_ref) { detail::may_fail("running kernels"); }
inline void synchronize_device() { detail::may_fail("running kernels"); }

// Makes a stream. It is only an identity: all work is done in the order of the calls, whatever the stream.
[[nodiscard]] inline stream_ref make_stream() {
  detail::may_fail("creating a stream");
  return {static_cast<void*>(new char{})};
}
inline void destroy_stream(stream_ref stream) noexcept { delete static_cast<char*>(stream.native); }

// Measures the time between two calls with the host's steady clock.
class stopwatch {
 public:
  stopwatch() = default;
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;

  void start(stream_ref = {}) { start_ = clock::now(); }
  void stop(stream_ref = {}) { stop_ = clock::now(); }
  // Microseconds between the last start() and stop().
  [[nodiscard]] double elapsed_us() { return ::std::chrono::duration<double, ::std::micro>(stop_ - start_).count(); }

 private:
  using clock = ::std::chrono::steady_clock;
  clock::time_point start_{}, stop_{};
};

// The simulator has one device.
[[nodiscard]] inline int current_device() { return 0; }
struct [[maybe_unused]] device_scope {
  explicit device_scope(int) {}
};

// Facts about the simulated device.
struct device_info {
  ::std::string backend;   // "cuda" or "simulator"
  ::std::string name;      // "simulated GPU (8 SMs)"
  int driver_version = 0;  // 0 in the simulator, as is runtime_version
  int runtime_version = 0;
  int compute_major = 0, compute_minor = 0;
  unsigned num_sms = 0;
  size_t total_bytes = 0, free_bytes = 0;
};

// Whether kernels can access pageable host memory: always, in the simulator.
[[nodiscard]] inline bool kernels_reach_host_memory() { return true; }

// Does nothing: the stack of a simulated thread has a fixed size.
inline void set_stack_bytes(size_t) {}

[[nodiscard]] inline device_info query_device() {
  detail::may_fail("asking what the GPU is");
  ::gpuheap::simulator::device_facts const facts = ::gpuheap::simulator::describe_device();
  device_info info;
  info.backend = "simulator";
  info.name = facts.name;
  info.num_sms = facts.num_sms;
  info.total_bytes = facts.total_bytes;
  info.free_bytes = facts.free_bytes;
  return info;
}

// The total and the free memory of the simulated device.
struct device_memory {
  size_t total_bytes = 0, free_bytes = 0;
};
[[nodiscard]] inline device_memory query_memory() {
  detail::may_fail("asking for free memory");
  ::gpuheap::simulator::device_facts const facts = ::gpuheap::simulator::describe_device();
  return {facts.total_bytes, facts.free_bytes};
}

// CUDA's own malloc and free for kernels, which the simulator does not have.
inline constexpr bool has_builtin_heap = false;
[[nodiscard]] inline size_t builtin_heap_limit() { return 0; }
inline void set_builtin_heap_limit(size_t) {
  throw plain_error("gpuheap: CUDA's device heap does not exist in the simulator: choose another allocator");
}
[[nodiscard]] inline void* builtin_malloc(size_t) { return nullptr; }
inline void builtin_free(void*) {}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
