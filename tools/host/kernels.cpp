#include "kernels.hpp"

#include <array>
#include <mutex>
#include <new>
#include <unordered_set>

#include "driver.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

struct named_handles {
  std::mutex lock;
  std::unordered_set<std::uint64_t> all;
};

named_handles& known() {
  static named_handles* const only = new named_handles;  // never destroyed: calls come after static destruction too
  return *only;
}

// The handles that this thread launched last: a direct-mapped cache that avoids the lock.
constinit thread_local std::array<std::uint64_t, 64> seen __attribute__((tls_model("initial-exec"))) = {};

void record(std::uint64_t handle, char const* name) {
  event line{};
  line.kind = static_cast<std::uint16_t>(kind::name);
  line.begin_ns = now_ns();
  line.address = handle;
  append_text(line, name);
}

}  // namespace

void kernel_named(std::uint64_t handle, char const* name) {
  named_handles& handles = known();
  std::lock_guard const held{handles.lock};
  // After its module is unloaded, a handle may be reused for another kernel. The reader of the trace takes the last name before a launch.
  handles.all.insert(handle);
  record(handle, name);
}

void kernel_launched(std::uint64_t handle) {
  std::uint64_t& slot = seen[(handle >> 4 ^ handle >> 12) % seen.size()];
  if (slot == handle) return;
  slot = handle;
  named_handles& handles = known();
  std::lock_guard const held{handles.lock};
  if (!handles.all.insert(handle).second) return;
  static auto const of_function = reinterpret_cast<PFN_cuFuncGetName_v12030>(symbol_in_driver("cuFuncGetName"));
  static auto const of_kernel = reinterpret_cast<PFN_cuKernelGetName_v12030>(symbol_in_driver("cuKernelGetName"));
  char const* name = nullptr;
  // A launch takes either kind of handle. The driver distinguishes them, and refuses the wrong one.
  if (of_function != nullptr && of_function(&name, reinterpret_cast<CUfunction>(handle)) == CUDA_SUCCESS && name != nullptr)
    return record(handle, name);
  if (of_kernel != nullptr && of_kernel(&name, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS && name != nullptr)
    return record(handle, name);
}

void forget_kernels_after_fork() {
  new (&known()) named_handles;  // its lock may have been held by a thread that this process lacks
  seen.fill(0);
}

}  // namespace gpuheap::interpose
