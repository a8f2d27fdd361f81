// Series of equal requests to one of the driver's allocators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver.hpp"

namespace gpuheap::probe {

// All vectors have an element for each request that was served; times in nanoseconds of the host's clock.
struct series {
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> request_ns;
  std::vector<std::uint64_t> kernel_ns;   // of the first kernel after the request, which writes to the block: launch to end
  std::vector<std::uint64_t> again_ns;    // of the same kernel right after
  std::vector<std::uint64_t> free_bytes;  // of the device, as the driver tells, after both
  std::vector<std::uint64_t> release_ns;
  std::uint64_t free_bytes_before = 0;
  std::uint64_t free_bytes_released = 0;  // after all blocks were freed
  int error = 0;                          // of the request that ended the series early
};

// The source of a series' blocks: device, managed, host or async. Its kernel is `touch`, add_one of kernels.hpp.
class requests {
 public:
  requests(driver_api const& driver, CUfunction touch);

  // "" if there is such an allocator here, otherwise the reason.
  std::string lacks(std::string const& allocator) const;
  // `bytes` is at least 4. All blocks live until the last was requested. Throws failure for an error that is no refusal of memory.
  series run(std::string const& allocator, std::size_t bytes, std::size_t num);

 private:
  CUresult request(std::string const& allocator, std::size_t bytes, std::uint64_t* address);
  void release(std::string const& allocator, std::uint64_t address);
  std::uint64_t timed_kernel(std::uint64_t address);
  std::uint64_t free_bytes() const;

  driver_api const& driver_;
  CUfunction touch_;
  CUstream stream_ = nullptr;
};

}  // namespace gpuheap::probe
