// The host's part of libgpuheap_malloc.a: wrappers of the functions by which a program launches kernels, captures streams and resets
// devices. The linker redirects the program's calls to them (--wrap, static_hooks.txt). Functions that the program does not call are not
// linked, so the references to them are weak.
//
// The library makes no heap before the program's first launch. The hooks are noexcept: if the host's memory is exhausted in one, the
// process ends.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tools/malloc/beside_captures.hpp"
#include "tools/malloc/service.hpp"
#include "tools/malloc/static_device.hpp"

namespace gpuheap::device_malloc {
namespace {

template <class Function>
bool look_up(char const* name, unsigned version, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) != cudaSuccess || found == nullptr) return false;
  function = reinterpret_cast<Function>(found);
  return true;
}

bool look_up_all(driver_calls& calls) {
  return look_up("cuCtxGetCurrent", 12000, calls.context_current) && look_up("cuCtxGetId", 12000, calls.context_id) &&
         look_up("cuCtxGetLimit", 12000, calls.context_limit) && look_up("cuCtxGetDevice", 12000, calls.context_device) &&
         look_up("cuDeviceGetName", 12000, calls.device_name) && look_up("cuCtxPushCurrent", 12000, calls.push_context) &&
         look_up("cuCtxPopCurrent", 12000, calls.pop_context) && look_up("cuDevicePrimaryCtxGetState", 12000, calls.primary_state) &&
         look_up("cuDevicePrimaryCtxRetain", 12000, calls.primary_retain) &&
         look_up("cuDevicePrimaryCtxRelease", 12000, calls.primary_release) && look_up("cuStreamIsCapturing", 12000, calls.is_capturing) &&
         look_up("cuThreadExchangeStreamCaptureMode", 12000, calls.capture_mode);
}

// True in three cases: while this thread is in the hook of a launch or a reset; once the exit handler has begun on this thread; and always
// on the thread that samples heaps (watch.hpp). The hooks of launches and resets then do nothing, because the provider, which owns the
// heaps (provider.hpp), launches kernels of its own.
thread_local bool inside = false;

// The service, made by the first launch; null if the driver is too old. It lives as long as the process, because code that runs at exit may
// still launch kernels.
service* the_service() {
  static service* const made = []() -> service* {
    driver_calls calls{};
    if (!look_up_all(calls)) {
      std::fputs("gpuheap: the CUDA driver is too old to serve device malloc, which answers nullptr: 12.0 or newer is needed\n", stderr);
      return nullptr;
    }
    calls.thread_begins = [] { inside = true; };
    return new service{static_provider(), calls};
  }();
  return made;
}

pid_t owner = 0;  // the process that made the service: a child of fork() has no CUDA

// The ids of the contexts that write_state_once() has dealt with: the last one of this thread, and all of them in a list that only grows. A
// context without a heap counts too, and so does one in which the write failed: it is not tried again.
thread_local std::uint64_t written_id = 0;
std::mutex written_mutex;
std::vector<std::uint64_t>& written() {
  static auto* const ids = new std::vector<std::uint64_t>;
  return *ids;
}

void write_state_once(served_context const& served) {
  if (written_id == served.id) return;
  std::lock_guard const lock{written_mutex};
  auto& ids = written();
  if (std::find(ids.begin(), ids.end(), served.id) == ids.end()) {
    if (served.heap != nullptr && !write_static_state(served.state.data()))
      std::fputs("gpuheap: the program's device malloc answers nullptr, since its heap cannot be made known to the kernels\n", stderr);
    ids.push_back(served.id);
  }
  written_id = served.id;
}

// The number of device resets. A thread that has not launched since the last reset must make its context current again.
std::atomic<unsigned> resets{0};
thread_local unsigned resets_seen = ~0u;

void serve_launch(cudaStream_t stream) {
  if (resets_seen != resets.load(std::memory_order_relaxed)) {
    // cudaFree makes the runtime's context current, as the launch itself would do.
    beside_captures const relaxed;
    if (cudaFree(nullptr) != cudaSuccess) return;
    resets_seen = resets.load(std::memory_order_relaxed);
  }
  service* const s = the_service();
  if (s == nullptr) return;
  static std::once_flag at_exit;
  // Registered after the runtime has begun, so that the handler runs before the runtime ends.
  std::call_once(at_exit, [] {
    owner = getpid();
    (void)std::atexit([] {
      if (getpid() != owner) return;
      inside = true;
      the_service()->process_ends();
    });
  });
  if (served_context const* const served = s->before_launch(reinterpret_cast<CUstream>(stream))) write_state_once(*served);
}

void before_launch(cudaStream_t stream) noexcept {
  if (inside) return;
  inside = true;
  serve_launch(stream);
  inside = false;
}

void before_reset() noexcept {
  if (inside) return;
  inside = true;
  if (resets_seen != resets.load(std::memory_order_relaxed)) {
    // This thread has not launched since the last reset, so perhaps no context is current on it. cudaFree makes the context current that
    // the program is about to reset.
    beside_captures const relaxed;
    (void)cudaFree(nullptr);
  }
  if (owner != 0 && owner == getpid()) the_service()->context_ends();
  resets.fetch_add(1, std::memory_order_relaxed);
  inside = false;
}

// A weak reference does not make the linker keep a shared library. So the driver may have the function although the linker did not resolve
// the reference.
template <class Function>
Function* real_or_driver(Function* linked, char const* name, unsigned version, bool per_thread) noexcept {
  if (linked != nullptr) return linked;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  (void)cudaGetDriverEntryPointByVersion(name, &found, version, per_thread ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream,
                                         &result);
  return reinterpret_cast<Function*>(found);
}

}  // namespace
}  // namespace gpuheap::device_malloc

// GPUHEAP_LAUNCH(name, result, (parameters), (arguments), stream): the wrapper of a function that launches.
#define GPUHEAP_LAUNCH(name, result, parameters, arguments, stream) \
  __attribute__((weak)) result __real_##name parameters;            \
  result __wrap_##name parameters;                                  \
  result __wrap_##name parameters {                                 \
    gpuheap::device_malloc::before_launch(stream);                  \
    return __real_##name arguments;                                 \
  }
// GPUHEAP_DRIVER_CALL(name, suffix, version, (parameters), (arguments), before, after): the wrapper of a driver function, which runs
// `before` and `after`. In `after`, `result` is the driver's answer. For functions with a suffix, a null stream is the thread's own default
// stream.
#define GPUHEAP_DRIVER_CALL(name, suffix, version, parameters, arguments, before, after) \
  GPUHEAP_DRIVER_SYMBOL(name, #name, suffix, version, parameters, arguments, before, after)
// The same for a function whose linked name has a suffix that the driver's look-up does not take: `symbol` is the name without the suffix,
// such as cuStreamBeginCapture for cuStreamBeginCapture_v2.
#define GPUHEAP_DRIVER_SYMBOL(name, symbol, suffix, version, parameters, arguments, before, after)                                   \
  __attribute__((weak)) CUresult __real_##name##suffix parameters;                                                                   \
  CUresult __wrap_##name##suffix parameters;                                                                                         \
  CUresult __wrap_##name##suffix parameters {                                                                                        \
    static auto* const real = gpuheap::device_malloc::real_or_driver(&__real_##name##suffix, symbol, version, sizeof(#suffix) != 1); \
    if (real == nullptr) return CUDA_ERROR_NOT_FOUND;                                                                                \
    before;                                                                                                                          \
    CUresult const result = real arguments;                                                                                          \
    after;                                                                                                                           \
    return result;                                                                                                                   \
  }
// GPUHEAP_CAPTURE(name, (parameters), (arguments), before, after): the same for a function of the runtime.
#define GPUHEAP_CAPTURE(name, parameters, arguments, before, after) \
  __attribute__((weak)) cudaError_t __real_##name parameters;       \
  cudaError_t __wrap_##name parameters;                             \
  cudaError_t __wrap_##name parameters {                            \
    before;                                                         \
    auto const result = __real_##name arguments;                    \
    after;                                                          \
    return result;                                                  \
  }
#define GPUHEAP_RESET(name, result, parameters, arguments) \
  __attribute__((weak)) result __real_##name parameters;   \
  result __wrap_##name parameters;                         \
  result __wrap_##name parameters {                        \
    gpuheap::device_malloc::before_reset();                \
    return __real_##name arguments;                        \
  }

extern "C" {
// The runtime's functions that launch, also for <<<...>>>. Programs with per-thread default streams call those with _ptsz.
#define GPUHEAP_RUNTIME_LAUNCHES(suffix)                                                                                             \
  GPUHEAP_LAUNCH(__cudaLaunchKernel##suffix, cudaError_t, (cudaKernel_t k, dim3 g, dim3 b, void** a, std::size_t m, cudaStream_t s), \
                 (k, g, b, a, m, s), s)                                                                                              \
  GPUHEAP_LAUNCH(cudaLaunchKernel##suffix, cudaError_t, (void const* f, dim3 g, dim3 b, void** a, std::size_t m, cudaStream_t s),    \
                 (f, g, b, a, m, s), s)                                                                                              \
  GPUHEAP_LAUNCH(cudaLaunchKernelExC##suffix, cudaError_t, (cudaLaunchConfig_t const* c, void const* f, void** a), (c, f, a),        \
                 c == nullptr ? nullptr : c->stream)                                                                                 \
  GPUHEAP_LAUNCH(cudaLaunchCooperativeKernel##suffix, cudaError_t,                                                                   \
                 (void const* f, dim3 g, dim3 b, void** a, std::size_t m, cudaStream_t s), (f, g, b, a, m, s), s)                    \
  GPUHEAP_LAUNCH(cudaGraphLaunch##suffix, cudaError_t, (cudaGraphExec_t g, cudaStream_t s), (g, s), s)
GPUHEAP_RUNTIME_LAUNCHES()
GPUHEAP_RUNTIME_LAUNCHES(_ptsz)
#define GPUHEAP_GRID unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz
#define GPUHEAP_DRIVER_LAUNCHES(suffix)                                                                                           \
  GPUHEAP_DRIVER_CALL(cuLaunchKernel, suffix, 7000, (CUfunction f, GPUHEAP_GRID, unsigned m, CUstream s, void** a, void** e),     \
                      (f, gx, gy, gz, bx, by, bz, m, s, a, e), gpuheap::device_malloc::before_launch(s), )                        \
  GPUHEAP_DRIVER_CALL(cuLaunchKernelEx, suffix, 11060, (CUlaunchConfig const* c, CUfunction f, void** a, void** e), (c, f, a, e), \
                      gpuheap::device_malloc::before_launch(c == nullptr ? nullptr : c->hStream), )                               \
  GPUHEAP_DRIVER_CALL(cuLaunchCooperativeKernel, suffix, 9000, (CUfunction f, GPUHEAP_GRID, unsigned m, CUstream s, void** a),    \
                      (f, gx, gy, gz, bx, by, bz, m, s, a), gpuheap::device_malloc::before_launch(s), )                           \
  GPUHEAP_DRIVER_CALL(cuGraphLaunch, suffix, 10000, (CUgraphExec g, CUstream s), (g, s), gpuheap::device_malloc::before_launch(s), )
GPUHEAP_DRIVER_LAUNCHES()
GPUHEAP_DRIVER_LAUNCHES(_ptsz)

// capture_begins() and capture_ends() (service.hpp) count the open captures. The hook of a call that begins a capture adds 1 before the
// call, and subtracts it again if the call fails. So no launch of another thread finds a count of 0 while a capture is open. The hook of a
// call that ends a capture subtracts 1, except after three errors: no capture was open (not_captured), or the capture stays open because
// the call came from a wrong thread (wrong_thread) or for a wrong stream (unmatched). So an invalid capture counts as ended.
#define GPUHEAP_BEGINS gpuheap::device_malloc::capture_begins()
#define GPUHEAP_NOT_BEGUN(success) \
  if (result != success) gpuheap::device_malloc::capture_ends()
#define GPUHEAP_ENDS(not_captured, wrong_thread, unmatched) \
  if (result != not_captured && result != wrong_thread && result != unmatched) gpuheap::device_malloc::capture_ends()
#define GPUHEAP_GRAPH_PLACE cudaGraph_t g, cudaGraphNode_t const *n, cudaGraphEdgeData const *d, std::size_t k
#define GPUHEAP_DRIVER_GRAPH_PLACE CUgraph g, CUgraphNode const *n, CUgraphEdgeData const *d, std::size_t k
#define GPUHEAP_CAPTURES(suffix)                                                                                                     \
  GPUHEAP_CAPTURE(cudaStreamBeginCapture##suffix, (cudaStream_t s, cudaStreamCaptureMode m), (s, m), GPUHEAP_BEGINS,                 \
                  GPUHEAP_NOT_BEGUN(cudaSuccess))                                                                                    \
  GPUHEAP_CAPTURE(cudaStreamBeginCaptureToGraph##suffix, (cudaStream_t s, GPUHEAP_GRAPH_PLACE, cudaStreamCaptureMode m),             \
                  (s, g, n, d, k, m), GPUHEAP_BEGINS, GPUHEAP_NOT_BEGUN(cudaSuccess))                                                \
  GPUHEAP_CAPTURE(cudaStreamEndCapture##suffix, (cudaStream_t s, cudaGraph_t * g), (s, g), ,                                         \
                  GPUHEAP_ENDS(cudaErrorIllegalState, cudaErrorStreamCaptureWrongThread, cudaErrorStreamCaptureUnmatched))           \
  GPUHEAP_DRIVER_SYMBOL(cuStreamBeginCapture_v2, "cuStreamBeginCapture", suffix, 10010, (CUstream s, CUstreamCaptureMode m), (s, m), \
                        GPUHEAP_BEGINS, GPUHEAP_NOT_BEGUN(CUDA_SUCCESS))                                                             \
  GPUHEAP_DRIVER_CALL(cuStreamBeginCaptureToGraph, suffix, 12030, (CUstream s, GPUHEAP_DRIVER_GRAPH_PLACE, CUstreamCaptureMode m),   \
                      (s, g, n, d, k, m), GPUHEAP_BEGINS, GPUHEAP_NOT_BEGUN(CUDA_SUCCESS))                                           \
  GPUHEAP_DRIVER_CALL(cuStreamEndCapture, suffix, 10000, (CUstream s, CUgraph * g), (s, g), ,                                        \
                      GPUHEAP_ENDS(CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED))
GPUHEAP_CAPTURES()
GPUHEAP_CAPTURES(_ptsz)
GPUHEAP_RESET(cudaDeviceReset, cudaError_t, (), ())
}
