// Series of equal requests to malloc inside a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver.hpp"

namespace gpuheap::probe {

struct kernel_series {
  std::vector<std::uint64_t> addresses;  // 0: the heap was exhausted
  std::vector<std::uint64_t> request_cycles;
  std::vector<std::uint64_t> release_cycles;
};

// A kernel of one thread requests all blocks, and a second one frees them. The heap is CUDA's own, of `heap_bytes`.
class in_kernel {
 public:
  static constexpr std::size_t heap_bytes = std::size_t{256} << 20;

  // Sets the size of the heap. Called before the module of kernels.hpp is loaded, because the first module with malloc in it fixes the
  // size. Returns "", or the reason why the size cannot be set.
  static std::string set_heap(driver_api const& driver);
  // `refused`: the answer of set_heap().
  in_kernel(driver_api const& driver, CUmodule module, std::string refused);

  // "" if kernels can allocate, otherwise the reason.
  std::string const& lacks() const { return lacks_; }
  // Throws failure if a call of the driver fails.
  kernel_series run(std::uint64_t bytes, unsigned num) const;

 private:
  driver_api const& driver_;
  CUfunction request_ = nullptr;
  CUfunction release_ = nullptr;
  std::string lacks_;
};

}  // namespace gpuheap::probe
