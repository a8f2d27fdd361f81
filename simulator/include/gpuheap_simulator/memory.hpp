// The simulated machine's memory and what it says about itself: the host's memory, one address space.
#pragma once

#include <cstddef>
#include <string>

namespace gpuheap::simulator {

// `bytes` aligned to 4096; nullptr when the system has none, or for more than all of its memory.
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
void deallocate(void* p) noexcept;

struct device_facts {
  std::string name;  // "simulated GPU (8 SMs)"
  unsigned num_sms = 0;
  std::size_t total_bytes = 0;  // of the system
  std::size_t free_bytes = 0;   // that the system could give
};
[[nodiscard]] device_facts describe_device();

}  // namespace gpuheap::simulator
