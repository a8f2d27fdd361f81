// The simulated machine's memory and what it says about itself: the host's memory, one address space.
#pragma once

#include <cstddef>
#include <string>

namespace gpuheap::simulator {

// `bytes` aligned to 4096; nullptr when the system has none, or for more than all of its memory.
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
void deallocate(void* p) noexcept;
// What the process has not given back: the number of allocate()'s blocks, and the bytes of map_memory().
struct held_memory {
  std::size_t blocks = 0;
  std::size_t mapped_bytes = 0;
  friend bool operator==(held_memory const&, held_memory const&) = default;
};
[[nodiscard]] held_memory memory_held() noexcept;

// Addresses without memory, and memory behind parts of them. All counts and addresses are multiples of page_bytes().
[[nodiscard]] std::size_t page_bytes() noexcept;
// nullptr when the system has not so many in a row. Touching them ends the process until memory is mapped.
[[nodiscard]] void* reserve_addresses(std::size_t bytes) noexcept;
// Everything there goes.
void release_addresses(void* base, std::size_t bytes) noexcept;
// New memory, all zero. False when the system has none, or when more than all of its memory would be mapped.
[[nodiscard]] bool map_memory(void* at, std::size_t bytes) noexcept;
void unmap_memory(void* at, std::size_t bytes) noexcept;

struct device_facts {
  std::string name;  // "simulated GPU (8 SMs)"
  unsigned num_sms = 0;
  std::size_t total_bytes = 0;  // of the system
  std::size_t free_bytes = 0;   // that the system could give
};
[[nodiscard]] device_facts describe_device();

}  // namespace gpuheap::simulator
