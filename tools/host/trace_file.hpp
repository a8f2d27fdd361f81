// The trace file of this process: made at the first record, and written through a shared mapping, so that records outlive the process,
// however it ends.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace_format.hpp"

namespace gpuheap::interpose {

// Nanoseconds of the monotonic clock.
[[nodiscard]] std::uint64_t now_ns();

// Appends a record, from any thread, in about 15 ns. Sets its thread. The caller sets `begin_ns` to a value of now_ns(). If the disk is
// full, the record is lost and counted, and a message says so once.
void append(event record);

// Appends a record with a payload of at most 16 KiB - 64 B; a longer payload is cut.
void append_text(event record, std::string_view payload);
// Appends a record of the kind fact.
void append_fact(std::string_view key, std::string_view value);

// Adds to a counter. Makes the file if there is none yet.
void count(counter which, std::uint64_t amount = 1);

// Marks the file as ended by exit.
void mark_ended();

// Called in a child process after fork. Forgets the parent's file; the first record makes the child's own.
void forget_after_fork();

}  // namespace gpuheap::interpose
