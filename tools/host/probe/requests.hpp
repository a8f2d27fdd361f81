// Series of equal requests to one of the driver's allocators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver.hpp"

namespace gpuheap::probe {

// All vectors have an element for each request that was served. Times are nanoseconds of the host's clock.
struct series {
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> request_ns;
  std::vector<std::uint64_t> kernel_ns;   // of the first kernel after the request, which writes to the block: from launch to end
  std::vector<std::uint64_t> again_ns;    // of a second launch of that kernel
  std::vector<std::uint64_t> free_bytes;  // of the device, as the driver reports them after both launches
  std::vector<std::uint64_t> release_ns;
  std::uint64_t free_bytes_before = 0;
  std::uint64_t free_bytes_released = 0;  // after all blocks were freed
  int error = 0;                          // of the request that ended the series early
};

// Runs series with an allocator of the driver: device, managed, host or async. `touch` is the kernel add_one of kernels.hpp.
class requests {
 public:
  requests(driver_api const& driver, CUfunction touch);

  // "" if this driver has the allocator, otherwise the reason why not.
  std::string lacks(std::string const& allocator) const;
  // `bytes` is at least 4. All blocks live until the last one has been requested. Throws failure for any error but a lack of memory.
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
