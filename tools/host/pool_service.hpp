// Pools over the driver. They are reserved at the first request in a context, and the handlers of requests, frees and queries ask them.
// With no mode set nothing here does anything.
#pragma once

#include <cstdint>

#include "call_stack.hpp"
#include "driver.hpp"
#include "trace_format.hpp"

namespace gpuheap::interpose {

inline constexpr std::uint64_t pool_alignment = 512;  // what cudaMalloc gives, and texture addresses need

enum class verdict {
  driver,
  served,
  refused,
  untimely,  // the driver's, since now is no moment to make pools (no context, or a capture); it most likely refuses
};

struct pool_block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0: not of a pool
};

// A live block of a pool whose memory is a file's (the mode zero-copy, where downloads may be merged).
struct shared_block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // asked for; 0: no such block
  std::uint64_t site = 0;   // that asked
  int file = -1;
  std::uint64_t offset = 0;  // in the file
};

[[nodiscard]] bool pools_on();

// A context may have become current, or memory was had from it: records its device, and what is checked once a process. Pools or not.
// The device's ordinal; -1 where no context is current.
int context_used();

// The program made a context: not a primary one.
void pool_context_made(CUcontext context);

// A request. `poolable`: of a kind that pools have; others go to the driver, or are refused in strict mode. Counts and says what is not
// served. The first request in a context reserves the pools of its device, if no other context has them.
[[nodiscard]] verdict pool_allocate(memory what, call_site const& from, std::uint64_t bytes, bool poolable, std::uint64_t* address);

// Called when the driver has served an untimely request after all: counts and reports it.
void pool_passed_by(memory what, call_site const& from, std::uint64_t bytes);

// A free. False: the address is in no pool, and the driver decides. Otherwise waits as the driver would (for the stream, or for the
// context), and `result` is the program's answer: an error of that wait, or invalid value for an address at which no live block begins
// (E07).
[[nodiscard]] bool pool_release(memory what, std::uint64_t address, CUstream const* stream, CUresult* result);

// The answer to a program that asks for free memory: as if only its live blocks were allocated.
[[nodiscard]] std::uint64_t pool_free_bytes(std::uint64_t driver_free_bytes);

// The live block that holds an address.
[[nodiscard]] pool_block pool_block_of(std::uint64_t address);

[[nodiscard]] shared_block pool_shared_block(std::uint64_t address);

// Whether the address is in a pool, so that it must not be exported to another process: the handle would show all of the pool. Says E10.
[[nodiscard]] bool pool_refuses_export(std::uint64_t address);

// A copy to an address succeeded: in unified mode the copied bytes are prefetched to the device in the copy's stream.
void pool_copied(std::uint64_t to, std::uint64_t bytes, CUstream stream);

void pool_capture_begins();
void pool_capture_ends();
[[nodiscard]] bool pool_captures();  // whether one is under way

// Pools die with their context.
void pool_context_gone(CUcontext context);
void pool_primary_released(CUdevice device);  // once; the primary context is gone only if no other thread holds it
void pool_device_reset(CUdevice device);      // the primary context is gone; others of the device live on

// At exit: says W01 if blocks are still live.
void pool_ended();

// Called in the child after fork: the driver is unusable there, and the parent's pools stay the parent's.
void pool_forget_after_fork();

}  // namespace gpuheap::interpose
