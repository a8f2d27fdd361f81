#include "requests.hpp"

#include <chrono>

namespace gpuheap::probe {

namespace {

using host_clock = std::chrono::steady_clock;

std::uint64_t since(host_clock::time_point begin) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(host_clock::now() - begin).count());
}

}  // namespace

requests::requests(driver_api const& driver, CUfunction touch) : driver_{driver}, touch_{touch} {
  check(driver_.make_stream(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

std::string requests::lacks(std::string const& allocator) const {
  if (allocator != "async") return "";
  if (driver_.allocate_ordered == nullptr || driver_.release_ordered == nullptr) return "the driver has no stream-ordered allocator";
  CUdeviceptr block = 0;
  CUresult const result = driver_.allocate_ordered(&block, 4, stream_);
  if (result != CUDA_SUCCESS) return "cuMemAllocAsync fails with CUDA error " + std::to_string(static_cast<int>(result));
  check(driver_.release_ordered(block, stream_), "cuMemFreeAsync");
  check(driver_.synchronise_stream(stream_), "cuStreamSynchronize");
  return "";
}

series requests::run(std::string const& allocator, std::size_t bytes, std::size_t num) {
  series found;
  found.free_bytes_before = free_bytes();
  for (std::size_t i = 0; i < num; ++i) {
    std::uint64_t address = 0;
    auto const begin = host_clock::now();
    CUresult const result = request(allocator, bytes, &address);
    auto const spent = since(begin);
    if (result != CUDA_SUCCESS) {
      found.error = static_cast<int>(result);
      break;
    }
    found.request_ns.push_back(spent);
    found.addresses.push_back(address);
    found.kernel_ns.push_back(timed_kernel(address));
    found.again_ns.push_back(timed_kernel(address));
    found.free_bytes.push_back(free_bytes());
  }
  for (std::uint64_t const address : found.addresses) {
    auto const begin = host_clock::now();
    release(allocator, address);
    found.release_ns.push_back(since(begin));
  }
  check(driver_.synchronise(), "cuCtxSynchronize");
  found.free_bytes_released = free_bytes();
  if (found.error != 0 && found.error != CUDA_ERROR_OUT_OF_MEMORY)
    throw failure{"a request of " + std::to_string(bytes) + " bytes", found.error};
  return found;
}

CUresult requests::request(std::string const& allocator, std::size_t bytes, std::uint64_t* address) {
  CUdeviceptr block = 0;
  void* pinned = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (allocator == "host") {
    result = driver_.allocate_pinned(&pinned, bytes, 0);
    block = reinterpret_cast<CUdeviceptr>(pinned);
  } else if (allocator == "managed") {
    result = driver_.allocate_managed(&block, bytes, CU_MEM_ATTACH_GLOBAL);
  } else if (allocator == "async") {
    result = driver_.allocate_ordered(&block, bytes, stream_);
  } else {
    result = driver_.allocate(&block, bytes);
  }
  *address = block;
  return result;
}

void requests::release(std::string const& allocator, std::uint64_t address) {
  if (allocator == "host") {
    check(driver_.release_pinned(reinterpret_cast<void*>(address)), "cuMemFreeHost");
  } else if (allocator == "async") {
    check(driver_.release_ordered(address, stream_), "cuMemFreeAsync");
  } else {
    check(driver_.release(address), "cuMemFree");
  }
}

std::uint64_t requests::timed_kernel(std::uint64_t address) {
  unsigned num = 1;
  void* parameters[] = {&address, &address, &num};
  auto const begin = host_clock::now();
  check(driver_.launch(touch_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr), "cuLaunchKernel");
  check(driver_.synchronise_stream(stream_), "cuStreamSynchronize");
  return since(begin);
}

std::uint64_t requests::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(driver_.free_memory(&free, &total), "cuMemGetInfo");
  return free;
}

}  // namespace gpuheap::probe
