// The place of a call: the return addresses of the frames outside this library, with a number for each stack, and a hash that is the same
// in every run.
#pragma once

#include <cstdint>

namespace gpuheap::interpose {

struct call_site {
  std::uint32_t stack = 0;  // number of the stack in this process's trace; 0: none
  std::uint64_t site = 0;   // hash of (build id, offset) of its frames
};

// The stack of the caller. The first call from a place walks the frames (some µs) and records the stack. Later calls compare the return
// addresses with those in the thread's own cache, which takes some ns for each frame.
[[nodiscard]] call_site where_from();

// Called after fork in the child process, whose trace has no stacks yet.
void forget_stacks_after_fork();

}  // namespace gpuheap::interpose
