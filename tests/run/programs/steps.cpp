// A program of the driver's that does the steps it is told, for the tests of `gpuheap run`:
//
//   run_steps [dlsym|lookup|per-thread] STEP...
//
//   context         makes the primary context of the first device current, as the CUDA runtime does; context=N: of the device N
//   other           makes a context of its own current; ended-elsewhere: another thread destroys it, and it stays current here
//   library=FILE    loads a fat binary, cubin or PTX file's bytes as a library; module=FILE, ex=FILE and fat=FILE as a module
//   options=FILE    loads a module with options for the compiler of PTX, and prints what they answer
//   path=FILE       loads the file by its name as a module; library-path=FILE as a library
//   wrapper=FILE    loads a library through nvcc's wrapper; linked=IMAGE,PART,PART through the wrapper of a linked image
//   launch=KERNEL   of what was loaded last; graph: launches one
//   capture, end    of a stream, which launches go to meanwhile
//   unload, reset, fork, wait; unnamed-reset: as the CUDA runtime resets, by a function that has no name; unnamed-reset=N: the device N
//   sleep=SECONDS, exit=N, abort
//
// Each step that fails prints the driver's error, and the program goes on.

#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/double/private_table.hpp"

namespace {

char const* way = "lookup";

template <class Function>
Function function(char const* base, char const* symbol, int version) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  void* found = nullptr;
  if (std::strcmp(way, "dlsym") == 0) {
    found = dlsym(library, symbol);
  } else {
    auto const look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
    bool const per_thread = std::strcmp(way, "per-thread") == 0;
    look_up(base, &found, per_thread && version < 7000 ? 7000 : version,
            per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  }
  if (found == nullptr) {
    std::fprintf(stderr, "no %s\n", symbol);
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}
#define DRIVER(base, symbol, version) function<PFN_##base##_v##version>(#base, #symbol, version)

// Kept for good: the driver may read what it was given.
std::vector<char>& bytes_of(std::string const& path) {
  static auto* const kept = new std::vector<std::vector<char>*>;
  std::ifstream file{path, std::ios::binary};
  kept->push_back(new std::vector<char>{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}});
  kept->back()->push_back('\0');
  return *kept->back();
}

struct wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  void const* data;
  void const* const* parts;
};

void const* wrapped(std::string const& files) {
  auto* const parts = new std::vector<void const*>;
  for (std::size_t at = 0; at <= files.size();) {
    std::size_t const comma = std::min(files.find(',', at), files.size());
    parts->push_back(bytes_of(files.substr(at, comma - at)).data());
    at = comma + 1;
  }
  parts->push_back(nullptr);
  return new wrapper{0x466243b1, parts->size() > 2 ? 2U : 1U, parts->front(), parts->size() > 2 ? parts->data() + 1 : nullptr};
}

class program {
 public:
  CUresult step(std::string const& what, std::string const& with) {
    if (what == "context") return make_current(std::atoi(with.c_str()));
    if (what == "other") return DRIVER(cuCtxCreate, cuCtxCreate_v4, 12050)(&context_, nullptr, 0, 0);
    if (what == "ended-elsewhere") {
      CUresult result = CUDA_SUCCESS;
      std::thread{[&] { result = DRIVER(cuCtxDestroy, cuCtxDestroy_v2, 4000)(context_); }}.join();
      return result;
    }
    if (what == "wait") return DRIVER(cuStreamSynchronize, cuStreamSynchronize, 2000)(nullptr);
    if (what == "library") return load(bytes_of(with).data());
    if (what == "wrapper" || what == "linked") return load(wrapped(with));
    if (what == "library-path")
      return DRIVER(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000)(&library_, with.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (what == "module" || what == "ex" || what == "options" || what == "fat" || what == "path") library_ = nullptr;
    if (what == "module") return DRIVER(cuModuleLoadData, cuModuleLoadData, 2000)(&module_, bytes_of(with).data());
    if (what == "ex") return DRIVER(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)(&module_, bytes_of(with).data(), 0, nullptr, nullptr);
    if (what == "options") return load_with_options(bytes_of(with).data());
    if (what == "fat") return DRIVER(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000)(&module_, bytes_of(with).data());
    if (what == "path") return DRIVER(cuModuleLoad, cuModuleLoad, 2000)(&module_, with.c_str());
    if (what == "launch") return launch(with.c_str());
    if (what == "graph") return DRIVER(cuGraphLaunch, cuGraphLaunch, 10000)(nullptr, nullptr);
    if (what == "capture") {
      DRIVER(cuStreamCreate, cuStreamCreate, 2000)(&stream_, 0);
      return DRIVER(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    if (what == "end") {
      CUgraph graph = nullptr;
      CUresult const result = DRIVER(cuStreamEndCapture, cuStreamEndCapture, 10000)(stream_, &graph);
      stream_ = nullptr;
      return result;
    }
    if (what == "unload" && library_ != nullptr) return DRIVER(cuLibraryUnload, cuLibraryUnload, 12000)(library_);
    if (what == "unload") return DRIVER(cuModuleUnload, cuModuleUnload, 2000)(module_);
    if (what == "reset") return DRIVER(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000)(0);
    if (what == "unnamed-reset") {
      void const* table = nullptr;
      CUresult const result = DRIVER(cuGetExportTable, cuGetExportTable, 3000)(&table, &driver_double::private_table_id);
      return result == CUDA_SUCCESS ? static_cast<driver_double::private_table const*>(table)->reset(std::atoi(with.c_str())) : result;
    }
    if (what == "fork") {
      if (fork() == 0) return CUDA_SUCCESS;  // the child does the rest
      int status = 0;
      wait(&status);
      std::fflush(stdout);
      _exit(WEXITSTATUS(status));
    }
    if (what == "sleep") {
      usleep(static_cast<useconds_t>(1e6 * std::atof(with.c_str())));
      return CUDA_SUCCESS;
    }
    if (what == "exit") std::exit(std::atoi(with.c_str()));
    if (what == "abort") std::abort();
    std::fprintf(stderr, "no step '%s'\n", what.c_str());
    std::exit(1);
  }

 private:
  CUresult make_current(CUdevice device) {
    DRIVER(cuInit, cuInit, 2000)(0);
    CUresult const result = DRIVER(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)(&context_, device);
    return result == CUDA_SUCCESS ? DRIVER(cuCtxSetCurrent, cuCtxSetCurrent, 4000)(context_) : result;
  }
  CUresult load(void const* image) {
    return DRIVER(cuLibraryLoadData, cuLibraryLoadData, 12000)(&library_, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  CUresult load_with_options(void const* image) {
    char information[64] = "not written", errors[64] = "not written";
    CUjit_option names[] = {CU_JIT_MAX_REGISTERS,      CU_JIT_INFO_LOG_BUFFER,   CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER,   CU_JIT_WALL_TIME,         CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_GENERATE_LINE_INFO};
    auto const number = [](std::uintptr_t n) { return reinterpret_cast<void*>(n); };
    void* values[] = {number(40), information, number(sizeof information), errors, number(77), number(sizeof errors), number(2), number(1)};
    CUresult const result = DRIVER(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)(&module_, image, std::size(names), names, values);
    std::printf("logs '%s' of %zu, '%s' of %zu\n", information, reinterpret_cast<std::size_t>(values[2]), errors,
                reinterpret_cast<std::size_t>(values[5]));
    return result;
  }
  CUresult launch(char const* name) {
    CUfunction kernel = nullptr;
    CUresult const result =
        library_ != nullptr ? DRIVER(cuLibraryGetKernel, cuLibraryGetKernel, 12000)(reinterpret_cast<CUkernel*>(&kernel), library_, name)
                            : DRIVER(cuModuleGetFunction, cuModuleGetFunction, 2000)(&kernel, module_, name);
    if (result != CUDA_SUCCESS) return result;
    return DRIVER(cuLaunchKernel, cuLaunchKernel, 4000)(kernel, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr);
  }

  CUcontext context_ = nullptr;
  CUlibrary library_ = nullptr;
  CUmodule module_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  int first = 1;
  if (count > 1 && std::strchr(words[1], '=') == nullptr &&
      (std::strcmp(words[1], "dlsym") == 0 || std::strcmp(words[1], "lookup") == 0 || std::strcmp(words[1], "per-thread") == 0)) {
    way = words[first++];
  }
  program made;
  for (int i = first; i < count; ++i) {
    std::string const word = words[i];
    std::size_t const equals = word.find('=');
    CUresult const result = made.step(word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
    if (result != CUDA_SUCCESS) std::printf("%s: error %d\n", word.substr(0, equals).c_str(), static_cast<int>(result));
  }
  void* const host = std::malloc(64);  // the host's own
  std::printf("done%s\n", host == nullptr ? ", without host memory" : "");
  std::free(host);
  return 0;
}
