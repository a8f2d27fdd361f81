// The memory of the simulated machine, which is memory of the host process, and the facts that the machine reports about itself.
#pragma once

#include <cstddef>
#include <string>

namespace gpuheap::simulator {

// Returns `bytes` bytes, aligned to 4096. Returns nullptr when the system refuses, or when `bytes` exceeds its physical memory.
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
void deallocate(void* p) noexcept;
// The memory that the process holds: the number of blocks from allocate(), and the number of bytes from map_memory().
struct held_memory {
  std::size_t blocks = 0;
  std::size_t mapped_bytes = 0;
  friend bool operator==(held_memory const&, held_memory const&) = default;
};
[[nodiscard]] held_memory memory_held() noexcept;

// Address ranges without memory, and memory that is mapped into parts of them. All sizes and addresses are multiples of page_bytes().
[[nodiscard]] std::size_t page_bytes() noexcept;
// Reserves a range of addresses. Returns nullptr when the system has no free range of that length. An access to an address without memory
// ends the process.
[[nodiscard]] void* reserve_addresses(std::size_t bytes) noexcept;
// Releases a whole range. The caller has unmapped all memory in it.
void release_addresses(void* base, std::size_t bytes) noexcept;
// Maps zeroed memory into a range. Returns false when the system refuses, or when the mapped memory would exceed the physical memory.
[[nodiscard]] bool map_memory(void* at, std::size_t bytes) noexcept;
void unmap_memory(void* at, std::size_t bytes) noexcept;

struct device_facts {
  std::string name;  // "simulated GPU (8 SMs)"
  unsigned num_sms = 0;
  std::size_t total_bytes = 0;  // physical memory of the system
  std::size_t free_bytes = 0;   // memory that the system could still give
};
[[nodiscard]] device_facts describe_device();

}  // namespace gpuheap::simulator
