// The trace file of this process: made at the first record, written through a shared mapping, so that what was recorded outlives the
// process however it ends.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace_format.hpp"

namespace gpuheap::interpose {

// Nanoseconds of the monotonic clock.
[[nodiscard]] std::uint64_t now_ns();

// Appends from any thread; about 15 ns. Fills in the thread; `begin_ns` comes as now_ns() gave it. A full disk loses the record and counts
// it, and is said once.
void append(event record);

// Appends a record with a payload of at most 16 KiB - 64 B; longer ones are cut.
void append_text(event record, std::string_view payload);
void append_fact(std::string_view key, std::string_view value);

// Adds to a counter; makes the file if need be.
void count(counter which, std::uint64_t amount = 1);

// Marks the file as ended by exit.
void mark_ended();

// In the child after fork: forgets the parent's file; the first record makes the child's own.
void forget_after_fork();

}  // namespace gpuheap::interpose
