// The settings that the command line passes to the library, through environment variables that a child process inherits.
#pragma once

#include <cstdint>
#include <string>

namespace gpuheap::interpose {

enum class pool_mode { none, device, zero_copy, unified, heap };
enum class merge_use { none, rehearse, elide };

struct settings {
  bool on = false;                    // GPUHEAP_HOST_TRACE is set and this program is meant
  std::string folder;                 // GPUHEAP_HOST_TRACE: where trace files go
  std::string only;                   // GPUHEAP_HOST_ONLY: the one program (file name) that is meant; empty: every one
  bool events = true;                 // GPUHEAP_HOST_EVENTS=0: messages and counters alone
  pool_mode mode = pool_mode::none;   // GPUHEAP_HOST_POOL: device, zero-copy, unified or heap:<name>
  std::string mode_words = "none";    // that variable, where it names a mode
  std::string heap_library;           // GPUHEAP_HOST_HEAP_LIBRARY: the allocator's library
  std::uint64_t heap_bytes = 0;       // GPUHEAP_HOST_HEAP_BYTES: of the heap on each device
  std::string plan;                   // GPUHEAP_HOST_PLAN: the plan's file
  merge_use merge = merge_use::none;  // GPUHEAP_HOST_MERGE: rehearse or elide; of the mode zero-copy
  bool strict = false;                // GPUHEAP_HOST_STRICT=1: what the plan does not hold fails with out of memory
  bool synchronise = true;            // GPUHEAP_HOST_SYNC=0: a served free does not wait for the device
  int poison = -1;                    // GPUHEAP_HOST_POISON: a byte that served memory is filled with; -1: none
};

// Read once, at load.
[[nodiscard]] settings const& configured();

// The file name of this process's program.
[[nodiscard]] std::string program_name();

}  // namespace gpuheap::interpose
