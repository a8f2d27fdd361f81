#include "driver.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace gpuheap::probe {

namespace {

template <class Function>
void find(Function& member, void* library, char const* symbol) {
  member = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

void check(CUresult result, char const* what) {
  if (result != CUDA_SUCCESS) throw failure{what, static_cast<int>(result)};
}

driver_api open_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error{std::string{"no CUDA driver: "} + dlerror()};
  driver_api api;
#define GPUHEAP_FIND(member, symbol, type) \
  find(api.member, library, #symbol);      \
  if (api.member == nullptr) throw std::runtime_error{"the CUDA driver lacks " #symbol};
  GPUHEAP_PROBE_DRIVER(GPUHEAP_FIND)
#undef GPUHEAP_FIND
#define GPUHEAP_FIND(member, symbol, type) find(api.member, library, #symbol);
  GPUHEAP_PROBE_OPTIONAL(GPUHEAP_FIND)
#undef GPUHEAP_FIND
  return api;
}

}  // namespace gpuheap::probe
