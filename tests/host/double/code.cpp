#include "code.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "blocks.hpp"
#include "tools/malloc/run/fat_binary.hpp"
#include "tools/malloc/run/machine_code.hpp"

namespace driver_double {
namespace {

using gpuheap::unchanged::machine_code;

struct code {
  std::string kind;
  machine_code symbols;
  std::map<std::pair<void const*, std::string>, std::vector<char>> variables;  // by context and name
};
struct kernel {
  code* of;
  std::string name;
};

std::vector<std::unique_ptr<code>>& codes() {
  static auto* const all = new std::vector<std::unique_ptr<code>>;
  return *all;
}
std::vector<std::unique_ptr<kernel>>& kernels() {
  static auto* const all = new std::vector<std::unique_ptr<kernel>>;
  return *all;
}

void keep(gpuheap::unchanged::bytes_view image) {
  static int number = 0;
  char const* const folder = std::getenv("DOUBLE_CODE");
  if (folder == nullptr) return;
  std::ofstream file{std::string{folder} + "/" + std::to_string(++number) + ".cubin", std::ios::binary};
  file.write(reinterpret_cast<char const*>(image.data()), static_cast<std::streamsize>(image.size()));
}

code* find(void const* handle) {
  for (auto const& each : codes()) {
    if (each.get() == handle) return each.get();
  }
  return nullptr;
}

// nvJitLink's functions have their version in their names.
template <class Function>
Function linker(char const* name) {
  char const* const named = std::getenv("DOUBLE_NVJITLINK");
  static void* const library = dlopen(named == nullptr ? "libnvJitLink.so.13" : named, RTLD_NOW);
  if (library == nullptr) return nullptr;
  for (int version = 9; version >= 0; --version) {
    std::string const whole = "__nvJitLink" + std::string{name} + "_13_" + std::to_string(version);
    if (void* const found = dlsym(library, whole.c_str()); found != nullptr) return reinterpret_cast<Function>(found);
  }
  return nullptr;
}

struct link_input {
  int kind;
  std::vector<char> bytes;
  std::string name;
};
struct link_state {
  std::vector<link_input> inputs;
  std::string target;  // of the first PTX that names one of an architecture alone: sm_90a
  void* handle = nullptr;
  std::vector<char> cubin;
  char* log = nullptr;
  std::size_t log_bytes = 0;
};

// The target of PTX for one architecture alone, such as sm_90a, for which the driver links by itself; "" for other PTX.
std::string own_target(std::string const& ptx) {
  std::size_t const at = ptx.find(".target sm_");
  std::string const word = at == std::string::npos ? "" : ptx.substr(at + 8, ptx.find_first_of(" ,\n", at + 8) - at - 8);
  return word.empty() || word.back() != 'a' ? "" : word;
}

}  // namespace

void* load_code(void const* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  auto made = std::make_unique<code>();
  if (magic == gpuheap::unchanged::elf_magic) {
    gpuheap::unchanged::bytes_view const all{static_cast<std::byte const*>(image), gpuheap::unchanged::elf_bytes(image)};
    made->kind = "cubin";
    made->symbols = gpuheap::unchanged::read_machine_code(all).value_or(machine_code{});
    keep(all);
  } else if (magic == gpuheap::unchanged::fat_binary_magic || magic == gpuheap::unchanged::wrapper_magic) {
    made->kind = "fat binary";
  } else if (std::strstr(static_cast<char const*>(image), ".version") != nullptr) {
    made->kind = "PTX";
  } else {
    return nullptr;
  }
  log("load %s", made->kind.c_str());
  codes().push_back(std::move(made));
  return codes().back().get();
}

bool is_code(void const* handle) { return find(handle) != nullptr; }

CUresult variable_of(void const* handle, void const* context, CUdeviceptr* out, std::size_t* bytes, char const* name) {
  code* const of = find(handle);
  if (of == nullptr || context == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto const known = of->symbols.variables.find(name);
  if (known == of->symbols.variables.end()) return CUDA_ERROR_NOT_FOUND;
  auto& place = of->variables[{context, name}];
  if (place.empty()) {
    place.resize(known->second);
    register_block(place.data(), place.size(), context);
  }
  if (out != nullptr) *out = reinterpret_cast<CUdeviceptr>(place.data());
  if (bytes != nullptr) *bytes = place.size();
  return CUDA_SUCCESS;
}

void* kernel_of(void const* handle, char const* name) {
  code* const of = find(handle);
  // Of what is no machine code the double does not know the kernels.
  if (of == nullptr || (of->kind == "cubin" && !of->symbols.kernels.contains(name))) return nullptr;
  kernels().push_back(std::make_unique<kernel>(kernel{of, name}));
  return kernels().back().get();
}

bool is_code_kernel(void const* handle) {
  for (auto const& each : kernels()) {
    if (each.get() == handle) return true;
  }
  return false;
}

void launch_code(void const* handle, void const* context) {
  auto const* const of = static_cast<kernel const*>(handle);
  auto const state = of->of->variables.find({context, "gpuheap_malloc_state"});
  unsigned long long value = 0;
  if (state != of->of->variables.end()) std::memcpy(&value, state->second.data(), std::min(sizeof value, state->second.size()));
  log("launch %s of %s, state %llu", of->name.c_str(), of->of->kind.c_str(), value);
}

}  // namespace driver_double

using namespace driver_double;

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* out, void const* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  *out = static_cast<CUlibrary>(load_code(image));
  return *out == nullptr ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}
CUresult cuLibraryLoadFromFile(CUlibrary* out, char const* path, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string const all{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  *out = static_cast<CUlibrary>(load_code(all.c_str()));
  return *out == nullptr ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) {
  log("unload");
  return is_code(library) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, char const* name) {
  *out = static_cast<CUkernel>(kernel_of(library, name));
  return *out == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* out, std::size_t* bytes, CUlibrary library, char const* name) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  return variable_of(library, context_now(), out, bytes, name);
}
CUresult cuModuleLoad(CUmodule* out, char const* path) {
  return cuLibraryLoadFromFile(reinterpret_cast<CUlibrary*>(out), path, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
CUresult cuModuleLoadDataEx(CUmodule* out, void const* image, unsigned, CUjit_option*, void**) {
  return cuLibraryLoadData(reinterpret_cast<CUlibrary*>(out), image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
CUresult cuModuleLoadFatBinary(CUmodule* out, void const* image) { return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr); }
CUresult cuModuleUnload(CUmodule module) { return cuLibraryUnload(reinterpret_cast<CUlibrary>(module)); }

CUresult cuLinkCreate_v2(unsigned num, CUjit_option* names, void** values, CUlinkState* out) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  if (context_now() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (linker<void*>("Create") == nullptr) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  auto* const made = new link_state;
  for (unsigned i = 0; i < num; ++i) {
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER) made->log = static_cast<char*>(values[i]);
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) made->log_bytes = reinterpret_cast<std::size_t>(values[i]);
  }
  made->target = "sm_" + std::to_string(architecture_of(0));
  *out = reinterpret_cast<CUlinkState>(made);
  return CUDA_SUCCESS;
}
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t bytes, char const* name, unsigned num,
                          CUjit_option* names, void** values) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  for (unsigned i = 0; i < num; ++i)
    log("link option %d = %llu", static_cast<int>(names[i]), reinterpret_cast<unsigned long long>(values[i]));
  int const kind = type == CU_JIT_INPUT_CUBIN ? 1 : type == CU_JIT_INPUT_PTX ? 2 : 4;  // 4: a fat binary
  if (type == CU_JIT_INPUT_PTX && static_cast<char const*>(data)[bytes - 1] != '\0') return CUDA_ERROR_INVALID_PTX;
  auto* const of = reinterpret_cast<link_state*>(state);
  auto const* const first = static_cast<char const*>(data);
  of->inputs.push_back({kind, {first, first + bytes}, name});
  if (type == CU_JIT_INPUT_PTX && !own_target(first).empty()) of->target = own_target(first);
  return CUDA_SUCCESS;
}
CUresult cuLinkComplete(CUlinkState state, void** out, std::size_t* bytes) {
  if (fails(__func__)) return CUDA_ERROR_UNKNOWN;
  static auto const create = linker<int (*)(void**, std::uint32_t, char const**)>("Create");
  static auto const add = linker<int (*)(void*, int, void const*, std::size_t, char const*)>("AddData");
  static auto const complete = linker<int (*)(void*)>("Complete");
  static auto const size = linker<int (*)(void*, std::size_t*)>("GetLinkedCubinSize");
  static auto const get = linker<int (*)(void*, void*)>("GetLinkedCubin");
  static auto const log_size = linker<int (*)(void*, std::size_t*)>("GetErrorLogSize");
  static auto const get_log = linker<int (*)(void*, char*)>("GetErrorLog");
  auto* const of = reinterpret_cast<link_state*>(state);
  log("link");
  if (long const refusal = setting("DOUBLE_NO_LINK", 0); refusal != 0) return static_cast<CUresult>(refusal);
  std::string const architecture = "-arch=" + of->target;
  char const* options[] = {architecture.c_str()};
  if (create(&of->handle, 1, options) != 0) return CUDA_ERROR_INVALID_VALUE;
  int failed = 0;
  for (link_input const& each : of->inputs) failed |= add(of->handle, each.kind, each.bytes.data(), each.bytes.size(), each.name.c_str());
  if (failed != 0 || complete(of->handle) != 0) {
    std::size_t length = 0;
    log_size(of->handle, &length);
    std::string said(length, '\0');
    get_log(of->handle, said.data());
    if (of->log != nullptr && of->log_bytes > 0) std::strncpy(of->log, said.c_str(), of->log_bytes - 1);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  size(of->handle, bytes);
  of->cubin.resize(*bytes);
  get(of->handle, of->cubin.data());
  *out = of->cubin.data();
  return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) {
  static auto const destroy = linker<int (*)(void**)>("Destroy");
  auto* const of = reinterpret_cast<link_state*>(state);
  std::memset(of->cubin.data(), 0xdd, of->cubin.size());  // whoever reads it now reads what is freed
  if (of->handle != nullptr) destroy(&of->handle);
  delete of;
  return CUDA_SUCCESS;
}
}
