// The interface of a library of one allocator (libgpuheap_host_heap_<name>.so, made from heaps/heap_unit.in): one C function,
// gpuheap_host_heap(), which returns the table below. pool_service.cpp calls it under the mode heap:<name>, and
// python/gpuheap/host/heaps.py reads its head; both change together with it, and `version` with them.
//
// A heap lies in memory that the caller got from the driver, and belongs to the context that was current when it was made: every call but
// forget() is made with that context current, one call at a time for each heap. A call runs a kernel of one thread in a stream of the
// heap's own and waits for it, and for nothing else. A failure is described in `why`, a text for which the caller provides the room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuheap::interpose {

inline constexpr std::uint32_t heap_interface_version = 1;
inline constexpr char heap_entry_point[] = "gpuheap_host_heap";

enum class heap_answer : std::uint32_t {
  done,
  nothing_fits,  // of a request
  failed,        // the device or the allocator refused the call itself
  ended,         // the process is ending, and the library has ended
};

struct heap_text {
  char words[512];
};

// A block as it is handed on, and what the allocator gave for it: the same, or less by the alignment that the allocator does not promise.
struct heap_block {
  std::uint64_t address;
  std::uint64_t given;
};

struct heap_functions {
  std::uint32_t version;
  std::uint32_t reserved;  // 0
  char const* allocator;   // as `gpuheap list` calls it
  char const* refusal;     // why it cannot stand for the driver's allocator; null: it can. The functions are null otherwise

  // A heap over [base, base + bytes), whose base is aligned to 512; null when that fails.
  void* (*make)(void* base, std::size_t bytes, heap_text* why);
  // `bytes` > 0; `alignment`: a power of two from 16 to 512.
  heap_answer (*allocate)(void* heap, std::size_t bytes, std::size_t alignment, heap_block* out, heap_text* why);
  // `given`: of a block that is live.
  heap_answer (*release)(void* heap, std::uint64_t given, heap_text* why);
  // The context is gone, and all that the heap had in it. Calls nothing of the device's.
  void (*forget)(void* heap);
};

}  // namespace gpuheap::interpose
