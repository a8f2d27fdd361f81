// The place of a call: the return addresses of the frames outside this library, with a number for each stack, and a hash that is the same
// in every run.
#pragma once

#include <cstdint>

namespace gpuheap::interpose {

struct call_site {
  std::uint32_t stack = 0;  // number of the stack in this process's trace; 0: none
  std::uint64_t site = 0;   // hash of (build id, offset) of its frames
};

// The stack of the caller. If the thread's cache has this stack, the call only compares return addresses, which takes some ns for each
// frame. Otherwise it walks the frames (some µs), records the stack if it is new, and stores it in the cache if it can be compared later.
[[nodiscard]] call_site where_from();

// Called after fork in the child process, whose trace has no stacks yet.
void forget_stacks_after_fork();

}  // namespace gpuheap::interpose
