#include "in_kernel.hpp"

#include <utility>

namespace gpuheap::probe {

namespace {

constexpr char const* no_gpu = "this machine has no GPU that runs the kernel with malloc";

std::vector<std::uint64_t> numbers_at(driver_api const& driver, CUdeviceptr from, unsigned num) {
  std::vector<std::uint64_t> found(num);
  check(driver.to_host(found.data(), from, num * sizeof(std::uint64_t)), "cuMemcpyDtoH");
  return found;
}

}  // namespace

std::string in_kernel::set_heap(driver_api const& driver) {
  if (driver.set_limit == nullptr) return no_gpu;
  CUresult const result = driver.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, heap_bytes);
  return result == CUDA_SUCCESS ? "" : "cuCtxSetLimit fails with CUDA error " + std::to_string(static_cast<int>(result));
}

in_kernel::in_kernel(driver_api const& driver, CUmodule module, std::string refused) : driver_{driver}, lacks_{std::move(refused)} {
  bool const found =
      driver.function(&request_, module, "request") == CUDA_SUCCESS && driver.function(&release_, module, "release") == CUDA_SUCCESS;
  if (!found && lacks_.empty()) lacks_ = no_gpu;
}

kernel_series in_kernel::run(std::uint64_t bytes, unsigned num) const {
  CUdeviceptr room = 0;
  std::size_t const array_bytes = num * sizeof(std::uint64_t);
  check(driver_.allocate(&room, 2 * array_bytes), "cuMemAlloc");
  CUdeviceptr addresses = room;
  CUdeviceptr cycles = room + array_bytes;
  check(driver_.set(room, 0, 2 * array_bytes), "cuMemsetD8");
  kernel_series found;
  void* of_request[] = {&addresses, &cycles, &bytes, &num};
  check(driver_.launch(request_, 1, 1, 1, 1, 1, 1, 0, nullptr, of_request, nullptr), "cuLaunchKernel");
  found.addresses = numbers_at(driver_, addresses, num);
  found.request_cycles = numbers_at(driver_, cycles, num);
  void* of_release[] = {&addresses, &cycles, &num};
  check(driver_.launch(release_, 1, 1, 1, 1, 1, 1, 0, nullptr, of_release, nullptr), "cuLaunchKernel");
  found.release_cycles = numbers_at(driver_, cycles, num);
  check(driver_.release(room), "cuMemFree");
  return found;
}

}  // namespace gpuheap::probe
