// Stacks of lanes, made once per OS thread and reused for ever.
//
// Under ThreadSanitizer a stack comes with a fiber, by which the sanitizer tells lanes apart. The two must change hands together, or one
// lane's frames would race with those of the lane that had the stack before. Fibers are expensive (100 us) and few (about 8000 in a
// process), so they are kept from launch to launch: a launch orders what the lanes of different launches did. Within a launch a lane gets a
// stack that no lane of that launch has had, while there are enough. Later lanes get the stack of the lane that finished first, and a race
// between these two goes unseen.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#ifndef GPUHEAP_SIMULATOR_TSAN
#define GPUHEAP_SIMULATOR_TSAN 0
#endif

namespace gpuheap::simulator {

// Lies at the top of the memory that it describes; the lane's frames grow down from `top`.
struct stack {
  std::byte const* bottom;  // lowest usable byte; below it lies a guard page
  std::byte* top;
  stack* next_free;
  void* fiber;        // ThreadSanitizer's, or null
  void* fake_frames;  // AddressSanitizer's, of a thread that runs on the stack
};

class stack_pool {
 public:
  stack_pool() = default;
  ~stack_pool();
  stack_pool(stack_pool const&) = delete;
  stack_pool& operator=(stack_pool const&) = delete;

  // All stacks given out later have `bytes` (rounded up to pages). Changing the size frees the pooled ones; none may be out.
  void set_stack_bytes(std::size_t bytes);
  // Throws std::bad_alloc when the system has no memory.
  [[nodiscard]] stack* take() {
    if constexpr (keeps_fibers) return take_with_fiber();
    if (free_ == nullptr) grow();
    stack* const s = free_;
    free_ = s->next_free;
    return s;
  }
  // For a lane that has finished. It may still be running on the stack.
  void release(stack* s) {
    if constexpr (keeps_fibers) return finished_.push_back(s);
    push(s);
  }
  // For a lane that was abandoned somewhere in its frames.
  void release_abandoned(stack* s) {
    if constexpr (keeps_fibers) destroy_fiber(s);
    push(s);
  }
  // Call when a launch has ended: all that its lanes did happens before all that follows.
  void end_launch();

 private:
  static constexpr bool keeps_fibers = GPUHEAP_SIMULATOR_TSAN != 0;

  void push(stack* s) {
    s->next_free = free_;
    free_ = s;
  }
  void grow();
  void release_all();
  [[nodiscard]] stack* take_with_fiber();
  static void destroy_fiber(stack* s);

  std::size_t stack_bytes_ = 0;
  stack* free_ = nullptr;
  std::deque<stack*> finished_;  // in this launch; under ThreadSanitizer only
  std::vector<void*> mappings_;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace gpuheap::simulator
