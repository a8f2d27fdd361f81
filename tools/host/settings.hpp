// The settings that the command line passes to the library, through environment variables that a child process inherits.
#pragma once

#include <cstdint>
#include <string>

namespace gpuheap::interpose {

enum class pool_mode { none, device, zero_copy, unified, heap };
enum class merge_use { none, rehearse, elide };

struct settings {
  bool on = false;                    // GPUHEAP_HOST_TRACE is set, and this program is to be watched
  std::string folder;                 // GPUHEAP_HOST_TRACE: where trace files go
  std::string only;                   // GPUHEAP_HOST_ONLY: the file name of the only program to watch; empty: all
  bool events = true;                 // GPUHEAP_HOST_EVENTS=0: records only messages and counters
  pool_mode mode = pool_mode::none;   // GPUHEAP_HOST_POOL: device, zero-copy, unified or heap:<name>
  std::string mode_words = "none";    // the value of that variable, if it names a mode
  std::string heap_library;           // GPUHEAP_HOST_HEAP_LIBRARY: the allocator's library
  std::uint64_t heap_bytes = 0;       // GPUHEAP_HOST_HEAP_BYTES: size of the heap on each device
  std::string plan;                   // GPUHEAP_HOST_PLAN: the plan's file
  merge_use merge = merge_use::none;  // GPUHEAP_HOST_MERGE: rehearse or elide; in the mode zero-copy only
  bool strict = false;                // GPUHEAP_HOST_STRICT=1: a request that no pool serves fails
  bool synchronise = true;            // GPUHEAP_HOST_SYNC=0: a served free does not wait for the device
  int poison = -1;                    // GPUHEAP_HOST_POISON: a byte that served memory is filled with; -1: none
};

// The settings, read once, when the library is loaded.
[[nodiscard]] settings const& configured();

// The file name of this process's program.
[[nodiscard]] std::string program_name();

}  // namespace gpuheap::interpose
