#include "cuda_double.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

namespace faults {

namespace {

constexpr std::size_t total_bytes = std::size_t{256} << 20;

struct state {
  plan planned;
  std::uint64_t seen = 0;
  bool paused = false;
  std::string failed;
  resources now;
  std::map<void*, std::size_t> allocations;
  std::set<void*> streams, events;
  std::map<CUdeviceptr, std::size_t> reservations, mappings;
  std::map<CUmemGenericAllocationHandle, bool> handles;
  std::uint64_t next_handle = 1;
  int device = 0;
  std::size_t limit = std::size_t{8} << 20;
  std::size_t free_bytes = total_bytes;
};
state& world() {
  static state* const only = new state;  // outlives all that ends with the process
  return *only;
}

cudaError_t runtime_code() { return world().planned.of_memory ? cudaErrorMemoryAllocation : cudaErrorUnknown; }
CUresult driver_code() { return world().planned.of_memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN; }

[[noreturn]] void misused(char const* what) {
  std::fprintf(stderr, "the double was misused: %s\n", what);
  std::abort();
}

cudaError_t allocate(char const* name, void** p, std::size_t bytes) {
  *p = nullptr;
  if (!passes(name)) return runtime_code();
  if (bytes > total_bytes) return cudaErrorMemoryAllocation;
  // Pages that nothing touches take no memory and no time.
  *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*p == MAP_FAILED) return cudaErrorMemoryAllocation;
  world().allocations[*p] = bytes;
  ++world().now.allocations;
  return cudaSuccess;
}
cudaError_t give_back(char const* name, void* p) {
  bool const passed = passes(name);
  if (p == nullptr) return passed ? cudaSuccess : runtime_code();
  auto const found = world().allocations.find(p);
  if (found == world().allocations.end()) misused("memory is given back that was not allocated, or twice");
  munmap(p, found->second);
  world().allocations.erase(found);
  --world().now.allocations;
  return passed ? cudaSuccess : runtime_code();
}
// Zeroed pages of the double's memory, all of which is private and anonymous, are those that the system gives on the next access.
void set_bytes(char* to, int value, std::size_t bytes) {
  constexpr std::size_t page = 4096, few = 16 * page;
  if (value == 0 && bytes >= few) {
    char* const first = to + (page - reinterpret_cast<std::uintptr_t>(to) % page) % page;
    std::size_t const whole = (bytes - static_cast<std::size_t>(first - to)) / page * page;
    if (madvise(first, whole, MADV_DONTNEED) == 0) {
      std::memset(to, 0, static_cast<std::size_t>(first - to));
      std::memset(first + whole, 0, static_cast<std::size_t>(to + bytes - (first + whole)));
      return;
    }
  }
  std::memset(to, value, bytes);
}
cudaError_t plain(char const* name) { return passes(name) ? cudaSuccess : runtime_code(); }
CUresult driver_plain(char const* name) { return passes(name) ? CUDA_SUCCESS : driver_code(); }

}  // namespace

resources held() { return world().now; }
std::string text_of(resources const& r) {
  auto const part = [](char const* what, long n) { return n == 0 ? std::string{} : std::string{" "} + what + " " + std::to_string(n); };
  return part("allocations", r.allocations) + part("streams", r.streams) + part("events", r.events) + part("reservations", r.reservations) +
         part("handles", r.handles) + part("mappings", r.mappings) + part("device changes", r.device_changes);
}
void arm(plan p) {
  world().planned = p;
  world().seen = 0;
  world().failed.clear();
}
void disarm() { world().planned = {}; }
void restore_device() { world().device = world().now.device_changes = 0; }
void pause() { world().paused = true; }
void resume() { world().paused = false; }
void tell_free(std::uint64_t bytes) { world().free_bytes = bytes; }
std::uint64_t calls() { return world().seen; }
std::string failed_call() { return world().failed; }

bool passes(char const* name) {
  state& w = world();
  if (w.paused) return true;
  std::uint64_t const number = w.seen++;
  bool const fails = number == w.planned.nth || (w.planned.ever_after && w.planned.nth != plan::none && number > w.planned.nth);
  if (fails && w.failed.empty()) w.failed = name;
  return !fails;
}

}  // namespace faults

using namespace faults;

// ---- the runtime
extern "C" {

cudaError_t cudaMalloc(void** p, std::size_t bytes) { return allocate("cudaMalloc", p, bytes); }
cudaError_t cudaMallocManaged(void** p, std::size_t bytes, unsigned) { return allocate("cudaMallocManaged", p, bytes); }
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return allocate("cudaHostAlloc", p, bytes); }
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t) { return allocate("cudaMallocAsync", p, bytes); }
cudaError_t cudaFree(void* p) { return give_back("cudaFree", p); }
cudaError_t cudaFreeHost(void* p) { return give_back("cudaFreeHost", p); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return give_back("cudaFreeAsync", p); }

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (!passes("cudaMemcpyAsync")) return runtime_code();
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (!passes("cudaMemsetAsync")) return runtime_code();
  set_bytes(static_cast<char*>(to), value, bytes);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* what, void const*) {
  if (!passes("cudaPointerGetAttributes")) return runtime_code();
  *what = {};
  what->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return plain("cudaStreamSynchronize"); }
cudaError_t cudaDeviceSynchronize() { return plain("cudaDeviceSynchronize"); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  if (!passes("cudaStreamCreateWithFlags")) return runtime_code();
  *s = reinterpret_cast<cudaStream_t>(new char);
  world().streams.insert(*s);
  ++world().now.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  bool const passed = passes("cudaStreamDestroy");
  if (world().streams.erase(s) == 0) misused("a stream is destroyed that was not made, or twice");
  delete reinterpret_cast<char*>(s);
  --world().now.streams;
  return passed ? cudaSuccess : runtime_code();
}
cudaError_t cudaEventCreate(cudaEvent_t* e) {
  if (!passes("cudaEventCreate")) return runtime_code();
  *e = reinterpret_cast<cudaEvent_t>(new char);
  world().events.insert(*e);
  ++world().now.events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  bool const passed = passes("cudaEventDestroy");
  if (world().events.erase(e) == 0) misused("an event is destroyed that was not made, or twice");
  delete reinterpret_cast<char*>(e);
  --world().now.events;
  return passed ? cudaSuccess : runtime_code();
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return plain("cudaEventRecord"); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return plain("cudaEventSynchronize"); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return plain("cudaEventElapsedTime");
}

cudaError_t cudaGetDevice(int* device) {
  *device = world().device;
  return plain("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device) {
  if (!passes("cudaSetDevice")) return runtime_code();
  world().device = device;
  world().now.device_changes = device == 0 ? 0 : 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return plain("cudaGetDeviceCount");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "double");
  p->major = 9;
  p->multiProcessorCount = 132;
  return plain("cudaGetDeviceProperties");
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return plain("cudaDeviceGetAttribute");
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return plain("cudaDriverGetVersion");
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return plain("cudaRuntimeGetVersion");
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = world().free_bytes;
  *total = total_bytes;
  return plain("cudaMemGetInfo");
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return plain("cudaDeviceGetDefaultMemPool");
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return plain("cudaMemPoolSetAttribute"); }
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) {
  *value = world().limit;
  return plain("cudaDeviceGetLimit");
}
cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t value) {
  if (!passes("cudaDeviceSetLimit")) return runtime_code();
  world().limit = value;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (!passes("cudaThreadExchangeStreamCaptureMode")) return runtime_code();
  *mode = cudaStreamCaptureModeGlobal;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorName(cudaError_t) { return "an injected error"; }
char const* cudaGetErrorString(cudaError_t) { return "the double was told to fail"; }

// ---- the driver, whose functions the library asks for by name

static CUresult double_error_name(CUresult, char const** name) {
  *name = "an injected error";
  return CUDA_SUCCESS;
}
static CUresult double_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return driver_plain("cuDeviceGetAttribute");
}
static CUresult double_granularity(std::size_t* value, CUmemAllocationProp const*, CUmemAllocationGranularity_flags) {
  *value = std::size_t{2} << 20;
  return driver_plain("cuMemGetAllocationGranularity");
}
static CUresult double_reserve(CUdeviceptr* base, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  if (!passes("cuMemAddressReserve")) return driver_code();
  void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *base = reinterpret_cast<CUdeviceptr>(p);
  world().reservations[*base] = bytes;
  ++world().now.reservations;
  return CUDA_SUCCESS;
}
static CUresult double_release_addresses(CUdeviceptr base, std::size_t bytes) {
  CUresult const answer = driver_plain("cuMemAddressFree");
  auto const found = world().reservations.find(base);
  if (found == world().reservations.end() || found->second != bytes) misused("addresses are freed that were not reserved so");
  for (auto const& [at, size] : world().mappings) {
    if (at < base + bytes && base < at + size) misused("addresses are freed while memory is mapped there");
  }
  munmap(reinterpret_cast<void*>(base), bytes);
  world().reservations.erase(found);
  --world().now.reservations;
  return answer;
}
static CUresult double_create(CUmemGenericAllocationHandle* handle, std::size_t, CUmemAllocationProp const*, unsigned long long) {
  if (!passes("cuMemCreate")) return driver_code();
  *handle = world().next_handle++;
  world().handles[*handle] = true;
  ++world().now.handles;
  return CUDA_SUCCESS;
}
static CUresult double_release(CUmemGenericAllocationHandle handle) {
  CUresult const answer = driver_plain("cuMemRelease");
  if (world().handles.erase(handle) == 0) misused("memory is released that was not created, or twice");
  --world().now.handles;
  return answer;
}
static CUresult double_map(CUdeviceptr at, std::size_t bytes, std::size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  if (!passes("cuMemMap")) return driver_code();
  if (world().handles.count(handle) == 0) misused("memory is mapped that was not created");
  if (!world().mappings.emplace(at, bytes).second) misused("memory is mapped where some is");
  ++world().now.mappings;
  return CUDA_SUCCESS;
}
static CUresult double_unmap(CUdeviceptr at, std::size_t bytes) {
  CUresult const answer = driver_plain("cuMemUnmap");
  auto const found = world().mappings.find(at);
  if (found == world().mappings.end() || found->second != bytes) misused("memory is unmapped that was not mapped so");
  mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  world().mappings.erase(found);
  --world().now.mappings;
  return answer;
}
static CUresult double_set_access(CUdeviceptr at, std::size_t bytes, CUmemAccessDesc const*, std::size_t) {
  if (!passes("cuMemSetAccess")) return driver_code();
  mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** address, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* answer) {
  static std::map<std::string, void*> const functions{
      {"cuGetErrorName", reinterpret_cast<void*>(&double_error_name)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&double_attribute)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&double_granularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&double_reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&double_release_addresses)},
      {"cuMemCreate", reinterpret_cast<void*>(&double_create)},
      {"cuMemRelease", reinterpret_cast<void*>(&double_release)},
      {"cuMemMap", reinterpret_cast<void*>(&double_map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&double_unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&double_set_access)},
  };
  *address = nullptr;
  if (!passes("cudaGetDriverEntryPointByVersion")) return runtime_code();
  auto const found = functions.find(name);
  *answer = found == functions.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  if (found != functions.end()) *address = found->second;
  return cudaSuccess;
}
}
