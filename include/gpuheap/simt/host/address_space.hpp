// The host backend of address_space.hpp: pages of the process, inaccessible until they are mapped.
#pragma once

#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/host/runtime.hpp>
#include <gpuheap/simt/types.hpp>

#include <string>

#include <gpuheap_simulator/memory.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// A range of reserved addresses. The struct owns nothing: the caller of reserve_addresses() calls release_addresses().
struct address_space {
  void* base = nullptr;
  size_t bytes = 0;
  size_t granularity = 0;  // bytes, a power of two; reservations and mappings are multiples of it
};

// Reserves at least `bytes` (> 0) of addresses. No memory is mapped there yet: a read or write there ends the process. Throws device_error
// or plain_error.
[[nodiscard]] inline address_space reserve_addresses(size_t bytes) {
  detail::may_fail("reserving addresses");
  address_space space;
  space.granularity = ::gpuheap::simulator::page_bytes();
  space.bytes = (bytes + space.granularity - 1) / space.granularity * space.granularity;
  if (space.bytes >= bytes) space.base = ::gpuheap::simulator::reserve_addresses(space.bytes);
  if (space.base == nullptr) {
    throw plain_error("gpuheap: reserving addresses failed: the system does not have " + ::std::to_string(bytes) +
                      " contiguous bytes of them");
  }
  return space;
}
// Releases the addresses. The caller has unmapped all memory of the space.
inline void release_addresses(address_space const& space) noexcept { ::gpuheap::simulator::release_addresses(space.base, space.bytes); }

// Maps new memory at `at`, where none is mapped. Both `at` and the size are multiples of the granularity, inside the space. The memory is
// zero on this backend, and undefined on the CUDA backend. Throws out_of_memory, and then changes nothing.
inline void map_memory(address_space const&, void* at, size_t bytes) {
  if (!::gpuheap::simulator::call_fails() && ::gpuheap::simulator::map_memory(at, bytes)) return;
  throw out_of_memory("gpuheap: mapping " + ::std::to_string(bytes) + " bytes of simulated device memory failed: the system has " +
                      ::std::to_string(::gpuheap::simulator::describe_device().free_bytes) + " bytes available");
}
// Unmaps and frees the memory that one map_memory() with the same arguments mapped.
inline void unmap_memory(address_space const&, void* at, size_t bytes) noexcept { ::gpuheap::simulator::unmap_memory(at, bytes); }

// Kernels have ended when launch() returns, so there is nothing to wait for.
inline void wait_for_device(address_space const&) noexcept {}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
