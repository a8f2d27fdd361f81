// The memory of the simulated machine, which is the host's, in one address space; and the facts that it reports about itself.
#pragma once

#include <cstddef>
#include <string>

namespace gpuheap::simulator {

// Returns `bytes` bytes, aligned to 4096; nullptr when the system has no memory, or for more than all of it.
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
void deallocate(void* p) noexcept;
// The memory that the process has not given back: the number of allocate()'s blocks, and the bytes of map_memory().
struct held_memory {
  std::size_t blocks = 0;
  std::size_t mapped_bytes = 0;
  friend bool operator==(held_memory const&, held_memory const&) = default;
};
[[nodiscard]] held_memory memory_held() noexcept;

// Address ranges without memory, and memory that is mapped into parts of them. All counts and addresses are multiples of page_bytes().
[[nodiscard]] std::size_t page_bytes() noexcept;
// Reserves a range of addresses; nullptr when the system has none so long. An access to it ends the process until memory is mapped there.
[[nodiscard]] void* reserve_addresses(std::size_t bytes) noexcept;
// Releases a whole range, with the memory that is mapped in it.
void release_addresses(void* base, std::size_t bytes) noexcept;
// Maps zeroed memory into a range. False when the system has none, or when more than all of its memory would be mapped.
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
