// libcuda.so.1 for machines without a GPU, as far as the tests of the host tools need it. Each call acts at once, on the CPU.
//
//   DOUBLE_VERSION=13000  what cuDriverGetVersion answers; younger entry points are not found
//   DOUBLE_MEMORY=68719476736, DOUBLE_DEVICES=1, DOUBLE_NAME=Double  of the devices
//   DOUBLE_NO_ATTRIBUTE=89  a device attribute that is 0; all others are 1
//   DOUBLE_NO_INFO=999  the error that cuMemGetInfo answers with
//   DOUBLE_NO_REGISTER=800  the error that cuMemHostRegister answers with
//   DOUBLE_NO_KERNELS=1  kernels of images that the runtime double registers are launched but do nothing
//   DOUBLE_SPOILS_COPIES=1  copies to the host change one byte of what they bring
//   DOUBLE_FAILS=N  the N-th call, counted from 0, fails, of those that `gpuheap run` makes for itself and that give nothing back
//   DOUBLE_LOG=FILE  gets a line for each request for memory, each free, copy, synchronisation and prefetch that reaches the driver
//
// As in the driver, a primary context has its handle from the start, and it may be made current before it is retained: it is one that does
// not exist then, and calls that need it fail. Retaining makes it exist, and not current. private_table.hpp is how a runtime gets at the
// handle and makes it current past every function that has a name.
//
// A program under `gpuheap run` makes no more errors of the driver than without it. So the double ends the process if the id of a context
// that has ended is asked for, or the time of one of its events: no program of the tests asks for these.

#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "blocks.hpp"
#include "code.hpp"
#include "module_image.hpp"
#include "private_table.hpp"
#include "tools/host/entry_table.hpp"

namespace driver_double {
namespace {

struct context {
  int device;
  bool exists;
  unsigned long long id;  // of this life: a primary context that ended and is retained again has another
};
unsigned long long contexts_made = 0;

struct event {
  long launches;
  context const* of;
  unsigned long long id;  // of the context
};

constexpr int max_devices = 16;
std::array<context, max_devices> primaries{};
std::array<int, max_devices> retained{};
thread_local std::vector<context*>& current = *new std::vector<context*>;  // never destroyed: programs free after main
int captures = 0;
long launches = 0;
int guarded_captures = 0;  // of them, those during which no memory may be requested

int num_devices() { return static_cast<int>(setting("DOUBLE_DEVICES", 1)); }
int version() { return static_cast<int>(setting("DOUBLE_VERSION", 13000)); }
context* now() { return current.empty() ? nullptr : current.back(); }
CUcontext handle(context* of) { return reinterpret_cast<CUcontext>(of); }
context* from(CUcontext of) { return reinterpret_cast<context*>(of); }

// The error of a call that needs a context, if there is none.
CUresult usable() {
  if (now() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return now()->exists ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

context* primary_of(CUdevice device) {
  context* const found = &primaries[static_cast<std::size_t>(device)];
  found->device = device;
  return found;
}

event const& living(CUevent of) {
  auto const& found = *reinterpret_cast<event const*>(of);
  if (!found.of->exists || found.of->id != found.id) broken("an event is asked whose context has ended", &found);
  return found;
}

void end(context* of) {
  of->exists = false;
  end_all_of(of);
}

CUresult allocate(char const* call, memory what, void** out, std::size_t bytes) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (guarded_captures > 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *out = make_block(what, bytes, now()->device, now());
  log("%s %zu", call, bytes);
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult release(char const* call, memory what, void* address) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (address == nullptr) return CUDA_SUCCESS;
  log("%s", call);
  return end_block(what, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A copy whose device sides must lie in live blocks.
CUresult copy(char const* call, void* to, void const* from, std::size_t bytes, bool to_device, bool from_device) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (to_device && block_of(to, bytes).bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (from_device && block_of(from, bytes).bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  log("%s %zu", call, bytes);
  std::memmove(to, from, bytes);
  if (from_device && !to_device && setting("DOUBLE_SPOILS_COPIES", 0) != 0) static_cast<unsigned char*>(to)[bytes - 1] ^= 0x55;
  return CUDA_SUCCESS;
}

CUresult set(CUdeviceptr to, std::size_t bytes, unsigned value, std::size_t width) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (block_of(reinterpret_cast<void*>(to), bytes * width).bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < bytes; ++i) std::memcpy(reinterpret_cast<char*>(to) + i * width, &value, width);
  return CUDA_SUCCESS;
}

// The kernels that a module of the double has. All take (unsigned* to, unsigned const* from, unsigned num).
using kernel = void (*)(unsigned* to, unsigned const* from, unsigned num);
struct named_kernel {
  char const* name;
  kernel run;
};
constexpr std::array<named_kernel, 2> kernels{{
    {"add_one",
     [](unsigned* to, unsigned const* from, unsigned num) {
       for (unsigned i = 0; i < num; ++i) to[i] = from[i] + 1;
     }},
    {"scale",
     [](unsigned* to, unsigned const* from, unsigned num) {
       for (unsigned i = 0; i < num; ++i) to[i] = from[i] * 3;
     }},
}};

// The modules that programs brought.
std::vector<module_image const*> images;

// nullptr: a module or function of the double's own.
module_image const* image_of(void const* handle) {
  auto const found = std::find(images.begin(), images.end(), handle);
  return found == images.end() ? nullptr : *found;
}

CUresult run(CUfunction function, launch_shape const& shape, void** parameters) {
  if (usable() != CUDA_SUCCESS) return usable();
  ++launches;
  if (is_code_kernel(function)) {
    launch_code(function, now());
    return CUDA_SUCCESS;
  }
  if (module_image const* const image = image_of(function); image != nullptr) {
    if (setting("DOUBLE_NO_KERNELS", 0) == 0) image->run(image->kernel, shape, parameters);
    return CUDA_SUCCESS;
  }
  auto const& wanted = *reinterpret_cast<named_kernel const*>(function);
  auto* const to = *static_cast<unsigned**>(parameters[0]);
  auto const* const source = *static_cast<unsigned const**>(parameters[1]);
  unsigned const num = *static_cast<unsigned*>(parameters[2]);
  std::size_t const bytes = num * sizeof(unsigned);
  if (block_of(to, bytes).bytes == 0 || block_of(source, bytes).bytes == 0) broken("a kernel leaves its block", to);
  wanted.run(to, source, num);
  return CUDA_SUCCESS;
}

struct entry {
  char const* symbol;
  char const* base;
  int version;
  bool per_thread;
};
constexpr entry entries[] = {
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) {#symbol, #base, version, sizeof(#suffix) > 1},
    GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
};

CUresult look_up(char const* base, void** function, int asked, cuuint64_t flags) {
  static void* const self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  using search = void* (*)(void*, char const*);
  // Past the interposer: the double's own functions.
  static auto const real_dlsym = reinterpret_cast<search>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  *function = nullptr;
  if (base == nullptr || *base == '\0') return CUDA_ERROR_INVALID_VALUE;
  entry const* best = nullptr;
  bool const per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  for (entry const& each : entries) {
    if (std::strcmp(each.base, base) != 0 || each.version > asked || each.version > version()) continue;
    if (each.per_thread && !per_thread) continue;
    bool const better = best == nullptr || (per_thread && each.per_thread && !best->per_thread) ||
                        (each.per_thread == best->per_thread && each.version > best->version);
    if (better) best = &each;
  }
  std::string const symbol = best != nullptr ? best->symbol : base;
  *function = real_dlsym(self, symbol.c_str());
  if (*function == nullptr) *function = real_dlsym(self, (symbol + "_v2").c_str());
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace

void const* context_now() { return now(); }
int architecture_of(int device) {
  long const all = setting("DOUBLE_ARCHITECTURE", 11);
  return static_cast<int>(device == num_devices() - 1 ? setting("DOUBLE_LAST_ARCHITECTURE", all) : all);
}

}  // namespace driver_double

using namespace driver_double;

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = version();
  return CUDA_SUCCESS;
}
CUresult cuGetProcAddress(char const* base, void** function, int asked, cuuint64_t flags) { return look_up(base, function, asked, flags); }
CUresult cuGetProcAddress_v2(char const* base, void** function, int asked, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  CUresult const result = look_up(base, function, asked, flags);
  if (status != nullptr) *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return result;
}
CUresult cuGetExportTable(void const** out, CUuuid const* which) {
  static constexpr private_table table{sizeof table,
                                       [](CUcontext* found, CUdevice device) {
                                         *found = handle(primary_of(device));
                                         return CUDA_SUCCESS;
                                       },
                                       [](CUcontext of) {
                                         current.assign(1, from(of));
                                         return CUDA_SUCCESS;
                                       },
                                       [](CUdevice device) {
                                         end(primary_of(device));  // not by the name, which may be another library's
                                         return CUDA_SUCCESS;
                                       }};
  if (std::memcmp(which, &private_table_id, sizeof *which) != 0) return CUDA_ERROR_NOT_FOUND;
  *out = &table;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = num_devices();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = ordinal;
  return ordinal < num_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* out, int room, CUdevice) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  char const* const name = std::getenv("DOUBLE_NAME");
  std::strncpy(out, name == nullptr ? "Double" : name, static_cast<std::size_t>(room));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* out, CUdevice) {
  *out = static_cast<std::size_t>(setting("DOUBLE_MEMORY", 64L << 30));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* out, CUdevice_attribute which, CUdevice device) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? architecture_of(device) / 10 : architecture_of(device) % 10;
  if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR || which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) return CUDA_SUCCESS;
  *out = setting("DOUBLE_NO_ATTRIBUTE", -1) == static_cast<long>(which) ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  ++retained[static_cast<std::size_t>(device)];
  *out = handle(primary_of(device));
  if (!primary_of(device)->exists) primary_of(device)->id = ++contexts_made;
  primary_of(device)->exists = true;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *flags = 0;
  *active = primary_of(device)->exists ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  end(primary_of(device));
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (--retained[static_cast<std::size_t>(device)] == 0) end(primary_of(device));
  return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned, CUdevice device) {
  auto* const made = new context{device, true, ++contexts_made};
  current.push_back(made);
  *out = handle(made);
  return CUDA_SUCCESS;
}
CUresult cuCtxDestroy_v2(CUcontext of) {
  end(from(of));
  std::erase(current, from(of));  // and is kept: it may be current in other threads
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext of) {
  current.clear();
  if (of != nullptr) current.push_back(from(of));
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext of) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  current.push_back(from(of));
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  *out = handle(now());
  current.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = handle(now());
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext of, unsigned long long* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  context const* const asked = of == nullptr ? now() : from(of);
  if (asked == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!asked->exists) broken("a context that has ended is asked for its id", asked);
  *out = asked->id;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetLimit(std::size_t* out, CUlimit) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = static_cast<std::size_t>(setting("DOUBLE_LIMIT", 8 << 20));
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  if (now() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = now()->device;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  if (usable() != CUDA_SUCCESS) return usable();
  if (captures > 0) broken("the context is synchronised during a capture", nullptr);
  log("cuCtxSynchronize");
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  return allocate("cuMemAlloc", memory::device, reinterpret_cast<void**>(out), bytes);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return allocate("cuMemAllocPitch", memory::device, reinterpret_cast<void**>(out), *pitch * height);
}
CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned) {
  return allocate("cuMemAllocManaged", memory::managed, reinterpret_cast<void**>(out), bytes);
}
CUresult cuMemHostAlloc(void** out, std::size_t bytes, unsigned) { return allocate("cuMemHostAlloc", memory::pinned, out, bytes); }
CUresult cuMemAllocHost_v2(void** out, std::size_t bytes) { return allocate("cuMemAllocHost", memory::pinned, out, bytes); }
CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream) {
  return allocate("cuMemAllocAsync", memory::device, reinterpret_cast<void**>(out), bytes);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, std::size_t bytes, CUstream stream) { return cuMemAllocAsync(out, bytes, stream); }
CUresult cuMemFree_v2(CUdeviceptr address) { return release("cuMemFree", memory::device, reinterpret_cast<void*>(address)); }
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  return release("cuMemFreeAsync", memory::device, reinterpret_cast<void*>(address));
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) { return cuMemFreeAsync(address, stream); }
CUresult cuMemFreeHost(void* address) { return release("cuMemFreeHost", memory::pinned, address); }
CUresult cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned) {
  if (long const refusal = setting("DOUBLE_NO_REGISTER", 0); refusal != 0) return static_cast<CUresult>(refusal);
  log("cuMemHostRegister %zu", bytes);
  return register_block(at, bytes, now()) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* at, unsigned) {
  *out = reinterpret_cast<CUdeviceptr>(at);
  return block_of(at, 1).bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void* at) { return unregister_block(at) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; }
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (long const refusal = setting("DOUBLE_NO_INFO", 0); refusal != 0) return static_cast<CUresult>(refusal);
  *free = free_bytes(now()->device);
  return cuDeviceTotalMem_v2(total, now()->device);
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  block const found = block_of(reinterpret_cast<void*>(address), 1);
  if (found.bytes == 0) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found.begin;
  if (bytes != nullptr) *bytes = found.bytes;
  return CUDA_SUCCESS;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  std::memset(out, 0, sizeof *out);
  return block_of(reinterpret_cast<void*>(address), 1).bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

#define DOUBLE_HTOD(suffix)                                                                     \
  CUresult cuMemcpyHtoD_v2##suffix(CUdeviceptr to, void const* from, std::size_t bytes) {       \
    return copy("cuMemcpyHtoD" #suffix, reinterpret_cast<void*>(to), from, bytes, true, false); \
  }
DOUBLE_HTOD()
DOUBLE_HTOD(_ptds)
#define DOUBLE_DTOH(suffix)                                                                     \
  CUresult cuMemcpyDtoH_v2##suffix(void* to, CUdeviceptr from, std::size_t bytes) {             \
    return copy("cuMemcpyDtoH" #suffix, to, reinterpret_cast<void*>(from), bytes, false, true); \
  }
DOUBLE_DTOH()
DOUBLE_DTOH(_ptds)
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy("cuMemcpyDtoD", reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, true, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, void const* from, std::size_t bytes, CUstream) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  return copy("cuMemcpyHtoDAsync", reinterpret_cast<void*>(to), from, bytes, true, false);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy("cuMemcpyDtoHAsync", to, reinterpret_cast<void*>(from), bytes, false, true);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy("cuMemcpy", reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, false, false);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) { return cuMemcpy(to, from, bytes); }
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes, std::size_t num, CUmemcpyAttributes*, std::size_t*,
                               std::size_t, CUstream) {
  for (std::size_t i = 0; i < num; ++i) {
    CUresult const result = cuMemcpy(to[i], from[i], bytes[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemcpy2D_v2(CUDA_MEMCPY2D const* wanted) {
  bool const to_device = wanted->dstMemoryType == CU_MEMORYTYPE_DEVICE;
  bool const from_device = wanted->srcMemoryType == CU_MEMORYTYPE_DEVICE;
  auto* to = to_device ? reinterpret_cast<char*>(wanted->dstDevice) : static_cast<char*>(wanted->dstHost);
  auto const* source = from_device ? reinterpret_cast<char const*>(wanted->srcDevice) : static_cast<char const*>(wanted->srcHost);
  for (std::size_t y = 0; y < wanted->Height; ++y) {
    CUresult const result =
        copy("cuMemcpy2D", to + y * wanted->dstPitch, source + y * wanted->srcPitch, wanted->WidthInBytes, to_device, from_device);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t num) { return set(to, num, value, 1); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t num) { return set(to, num, value, 4); }
CUresult cuMemPrefetchAsync_v2(CUdeviceptr at, std::size_t bytes, CUmemLocation, unsigned, CUstream stream) {
  if (usable() != CUDA_SUCCESS) return usable();
  if (captures > 0 && stream == nullptr) broken("the default stream is used during a capture", nullptr);
  log("cuMemPrefetchAsync %zu", bytes);
  return block_of(reinterpret_cast<void*>(at), bytes).what == memory::managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadData(CUmodule* out, void const* text) {
  *out = static_cast<CUmodule>(load_code(text));
  if (*out != nullptr) return CUDA_SUCCESS;
  *out = reinterpret_cast<CUmodule>(std::uintptr_t{1});
  if (std::strncmp(static_cast<char const*>(text), module_mark, sizeof module_mark) != 0) return CUDA_SUCCESS;
  auto const* const image = static_cast<module_image const*>(text);
  if (image->variable != nullptr) register_block(image->variable, image->variable_bytes);
  images.push_back(image);
  *out = reinterpret_cast<CUmodule>(const_cast<module_image*>(image));
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* out, std::size_t* bytes, CUmodule module, char const* name) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  if (is_code(module)) return variable_of(module, now(), out, bytes, name);
  module_image const* const image = image_of(module);
  if (image == nullptr || image->variable == nullptr || std::strcmp(image->name, name) != 0) return CUDA_ERROR_NOT_FOUND;
  if (out != nullptr) *out = reinterpret_cast<CUdeviceptr>(image->variable);
  if (bytes != nullptr) *bytes = image->variable_bytes;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, char const* name) {
  if (is_code(module)) {
    *out = static_cast<CUfunction>(kernel_of(module, name));
    return *out == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  }
  if (module_image const* const image = image_of(module); image != nullptr) {
    *out = reinterpret_cast<CUfunction>(const_cast<module_image*>(image));
    return image->run != nullptr && std::strcmp(image->name, name) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  }
  for (named_kernel const& each : kernels) {
    if (std::strcmp(each.name, name) != 0) continue;
    *out = reinterpret_cast<CUfunction>(const_cast<named_kernel*>(&each));
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
#define DOUBLE_LAUNCH(suffix)                                                                                                     \
  CUresult cuLaunchKernel##suffix(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x, unsigned y, \
                                  unsigned z, unsigned, CUstream, void** parameters, void**) {                                    \
    return run(function, {{grid_x, grid_y, grid_z}, {x, y, z}}, parameters);                                                      \
  }
DOUBLE_LAUNCH()
DOUBLE_LAUNCH(_ptsz)

CUresult cuStreamCreate(CUstream* out, unsigned) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = reinterpret_cast<CUstream>(new int);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  delete reinterpret_cast<int*>(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = captures > 0 && stream != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  static thread_local CUstreamCaptureMode current_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current_mode);
  return CUDA_SUCCESS;
}
// Each launch lasts a millisecond: an event's time is how many there were.
CUresult cuEventCreate(CUevent* out, unsigned) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  if (usable() != CUDA_SUCCESS) return usable();
  *out = reinterpret_cast<CUevent>(new event{0, now(), now()->id});
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent of, CUstream) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  reinterpret_cast<event*>(of)->launches = launches;
  return usable();
}
CUresult cuEventQuery(CUevent of) {
  static_cast<void>(living(of));
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* out, CUevent begin, CUevent end) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  *out = static_cast<float>(living(end).launches - living(begin).launches);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  log("launch of a graph");
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  log("cuStreamSynchronize");
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode mode) {
  ++captures;
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++guarded_captures;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph* out) {
  --captures;
  guarded_captures = 0;
  *out = nullptr;
  return CUDA_SUCCESS;
}

}  // extern "C"
