#include "served.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "allocator.hpp"
#include "settings.hpp"

namespace gpuheap::unchanged {

namespace {

using device_malloc::served_context;

struct served_code {
  CUlibrary library = nullptr;  // either this or `module` is set
  CUmodule module = nullptr;
  std::uint64_t only_context = 0;  // of a module: the context that it was loaded in
  std::set<std::uint64_t> ready;   // contexts in which the variable has the heap's state
};

struct everything {
  std::mutex lock;
  std::vector<served_code> code;
};

everything& all() {
  static everything* const only = new everything;  // never destroyed: calls come after static destruction too
  return *only;
}

constinit std::atomic<std::size_t> num_served{0};
// Whether code was ever served, so that there may be heaps, also once all of it is unloaded. All accesses are relaxed, because the program
// orders the end of a context after the launches in it, and these after the load of their code.
constinit std::atomic<bool> was_served{false};
constinit std::atomic<std::uint64_t> generation{
    1};  // grows when code is loaded or unloaded, so that prepare_launch() looks at all code again

// The context and generation that this thread prepared last.
struct prepared {
  std::uint64_t generation;
  served_context const* where;
};
constinit thread_local prepared last __attribute__((tls_model("initial-exec"))) = {0, nullptr};

void add(served_code made) {
  std::lock_guard const held{all().lock};
  all().code.push_back(std::move(made));
  was_served.store(true, std::memory_order_relaxed);
  num_served.store(all().code.size());
  ++generation;
}

template <class Wanted>
void drop(Wanted wanted) {
  if (num_served.load() == 0) return;
  std::lock_guard const held{all().lock};
  std::erase_if(all().code, wanted);
  num_served.store(all().code.size());
  ++generation;
}

bool captures(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().stream_captures(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Copies the heap's state into the module's variable, in a new stream, because work in the default stream would wait for other streams, and
// other streams for it.
void write_state(served_code& code, served_context const& to) {
  if (code.only_context != 0 && code.only_context != to.id) return;
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  CUstream stream = nullptr;
  char const* const name = serving().state_variable.c_str();
  CUresult result = code.library != nullptr ? driver().library_global(&at, &bytes, code.library, name)
                                            : driver().module_global(&at, &bytes, code.module, name);
  if (result == CUDA_SUCCESS) result = driver().stream_create(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) result = driver().copy_in_order(at, to.state.data(), std::min(bytes, to.state.size()), stream);
  if (result == CUDA_SUCCESS) result = driver().stream_wait(stream);
  if (stream != nullptr) driver().stream_destroy(stream);
  if (result != CUDA_SUCCESS) {
    say("the heap cannot be made known to a module (error " + std::to_string(result) + "): its malloc gives null pointers");
  }
  code.ready.insert(to.id);  // also after a failure, so that the write is not tried again before every launch
}

}  // namespace

void served_library(CUlibrary library) { add({library, nullptr, 0, {}}); }
void served_module(CUmodule module) { add({nullptr, module, current_context(), {}}); }
void forget_library(CUlibrary library) {
  drop([&](served_code const& each) { return each.library == library; });
}
void forget_module(CUmodule module) {
  drop([&](served_code const& each) { return each.library == nullptr && each.module == module; });
}

void prepare_launch(CUstream stream) {
  if (num_served.load(std::memory_order_acquire) == 0) return;
  std::uint64_t const now = generation.load(std::memory_order_acquire);
  if (last.generation != now && captures(stream)) return;
  served_context const* const where = heaps().before_launch(stream);
  if (where == nullptr || (last.generation == now && last.where == where)) return;
  relaxed_capture const relaxed;
  std::lock_guard const held{all().lock};
  for (served_code& each : all().code) {
    if (!each.ready.contains(where->id)) write_state(each, *where);
  }
  last = {now, where};
}

void context_ends(CUcontext context) {
  CUcontext popped = nullptr;
  if (!was_served.load(std::memory_order_relaxed) || driver().context_push(context) != CUDA_SUCCESS) return;
  heaps().context_ends();
  driver().context_pop(&popped);
}

void primary_ends(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  if (!was_served.load(std::memory_order_relaxed)) return;
  if (driver().primary_state(device, &flags, &active) != CUDA_SUCCESS || active == 0) return;
  if (driver().primary_retain(&primary, device) != CUDA_SUCCESS) return;
  context_ends(primary);
  driver().primary_release(device);
}

void forget_served_after_fork() {
  new (&all()) everything;  // its lock may have been held by a thread that this process lacks
  num_served.store(0);
  was_served.store(false, std::memory_order_relaxed);
  ++generation;
}

}  // namespace gpuheap::unchanged
