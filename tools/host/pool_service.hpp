// Pools in memory of the driver. They are reserved at the first request in a context, and the handlers of requests, frees and queries ask
// them. Without a mode, only context_used() does anything.
#pragma once

#include <cstdint>

#include "call_stack.hpp"
#include "driver.hpp"
#include "trace_format.hpp"

namespace gpuheap::interpose {

inline constexpr std::uint64_t pool_alignment = 512;  // the alignment of cudaMalloc, which texture addresses need

enum class verdict {
  driver,    // left to the driver
  served,    // by a pool
  refused,   // out of memory, in strict mode
  untimely,  // left to the driver, because no pool can be made or used now (no context, or a capture); the driver most likely refuses it
};

struct pool_block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0: there is no such block
};

// A live block of a pool whose memory is the mapping of a file (in the mode zero-copy, where merging.hpp can merge downloads).
struct shared_block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // as requested; 0: there is no such block
  std::uint64_t site = 0;   // the call site of the request
  int file = -1;
  std::uint64_t offset = 0;  // in the file
};

[[nodiscard]] bool pools_on();

// Called when a context may have become current, or when the driver has given memory of the current context. Records its device in the
// trace, and checks the driver once for each process. Returns the device's ordinal, or -1 if no context is current.
int context_used();

// Called when the program has created a context. Such a context is not a primary one.
void pool_context_made(CUcontext context);

// Handles a request. `poolable`: pools can serve requests of its kind. Other requests go to the driver, or are refused in strict mode.
// Counts and reports requests that are not served. The first request in a context reserves the pools of its device, if no other context has
// them.
[[nodiscard]] verdict pool_allocate(memory what, call_site const& from, std::uint64_t bytes, bool poolable, std::uint64_t* address);

// Called when the driver has served an untimely request after all: counts and reports it.
void pool_passed_by(memory what, call_site const& from, std::uint64_t bytes);

// Handles a free. Returns false if the address is in no pool; the driver must then handle it. Otherwise it waits as the driver would (for
// the stream, or for the context), and `result` becomes the program's answer: an error of that wait, or invalid value (E07) if no live
// block begins at the address, or if the call is for another kind of memory.
[[nodiscard]] bool pool_release(memory what, std::uint64_t address, CUstream const* stream, CUresult* result);

// The free memory that the program is told: what would be free if only the program's live blocks were allocated.
[[nodiscard]] std::uint64_t pool_free_bytes(std::uint64_t driver_free_bytes);

// The live block that contains an address.
[[nodiscard]] pool_block pool_block_of(std::uint64_t address);

// The live block that contains an address, in a pool of the current context whose memory is the mapping of a file.
[[nodiscard]] shared_block pool_shared_block(std::uint64_t address);

// Whether the address is in a pool, so that it must not be exported to another process: the handle would show all of the pool. Reports E10.
[[nodiscard]] bool pool_refuses_export(std::uint64_t address);

// Called when a copy to an address has succeeded. In unified mode, it prefetches the copied bytes to the device in the copy's stream.
void pool_copied(std::uint64_t to, std::uint64_t bytes, CUstream stream);

void pool_capture_begins();
void pool_capture_ends();
[[nodiscard]] bool pool_captures();  // whether a capture is open

// Called when a context may be gone. Pools end with their context.
void pool_context_gone(CUcontext context);
void pool_primary_released(CUdevice device);  // released once; the primary context is gone only if nothing else retains it
void pool_device_reset(CUdevice device);      // the primary context is gone; other contexts of the device remain

// Called at exit. Reports W01 if blocks are still live.
void pool_ended();

// Called in a child process after fork. The driver is unusable there, and the parent's pools stay the parent's.
void pool_forget_after_fork();

}  // namespace gpuheap::interpose
