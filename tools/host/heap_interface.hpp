// The interface of a library of one allocator (libgpuheap_host_heap_<name>.so, made from heaps/heap_unit.in): one C function,
// gpuheap_host_heap(), which returns the table below. pool_service.cpp calls it under the mode heap:<name>, and
// python/gpuheap/host/heaps.py reads its first members. A change of the table must change both files and `version`.
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
  nothing_fits,  // allocate(): no free block is large enough
  failed,        // the device or the allocator refused the call itself
  ended,         // the process is ending, and the library has ended
};

struct heap_text {
  char words[512];
};

// A block. `address` is what the program gets. `given` is the address that the allocator returned, which is lower if the allocator does not
// promise the requested alignment.
struct heap_block {
  std::uint64_t address;
  std::uint64_t given;
};

struct heap_functions {
  std::uint32_t version;
  std::uint32_t reserved;  // 0
  char const* allocator;   // its name in `gpuheap list`
  char const* refusal;     // why it cannot replace the driver's allocator, and then the functions are null; null: it can

  // Makes a heap over [base, base + bytes). `base` is aligned to 512. Returns null on failure.
  void* (*make)(void* base, std::size_t bytes, heap_text* why);
  // `bytes` > 0; `alignment`: a power of two from 16 to 512.
  heap_answer (*allocate)(void* heap, std::size_t bytes, std::size_t alignment, heap_block* out, heap_text* why);
  // `given` is that of a live block.
  heap_answer (*release)(void* heap, std::uint64_t given, heap_text* why);
  // Called when the context is gone, and the heap's device memory with it. Makes no call to the device.
  void (*forget)(void* heap);
};

}  // namespace gpuheap::interpose
