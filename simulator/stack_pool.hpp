// Stacks of lanes. Each OS thread maps its own, and reuses them for later lanes and launches.
//
// Under ThreadSanitizer each stack has a fiber, by which the sanitizer tells lanes apart. A stack and its fiber always go to a new lane
// together. Otherwise the sanitizer would report races between a lane's frames and those of the stack's previous lane. A fiber takes 100 us
// to make, and a process can have about 8000, so later launches reuse them. Reuse by a later launch hides no race, because launches are
// ordered. Within a launch, a lane gets a stack that no lane of that launch has had, while there are enough. Later lanes get the stack of
// the lane that finished first, and a race between two lanes of one stack is not found.
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
  void* fiber;        // ThreadSanitizer's fiber, or null
  void* fake_frames;  // AddressSanitizer's fake stack of the lane that runs on this one
};

class stack_pool {
 public:
  stack_pool() = default;
  ~stack_pool();
  stack_pool(stack_pool const&) = delete;
  stack_pool& operator=(stack_pool const&) = delete;

  // All stacks given out later have `bytes` (rounded up to pages). A change of the size unmaps all stacks, so none may be in use.
  void set_stack_bytes(std::size_t bytes);
  // Throws std::bad_alloc when the system has no memory.
  [[nodiscard]] stack* take() {
    if constexpr (keeps_fibers) return take_with_fiber();
    if (free_ == nullptr) grow();
    stack* const s = free_;
    free_ = s->next_free;
    return s;
  }
  // Takes back the stack of a lane that has finished. The caller may still run on it.
  void release(stack* s) {
    if constexpr (keeps_fibers) return finished_.push_back(s);
    push(s);
  }
  // Takes back the stack of a lane that was abandoned in the middle of its frames.
  void release_abandoned(stack* s) {
    if constexpr (keeps_fibers) destroy_fiber(s);
    push(s);
  }
  // Called after a launch. All that the launch's lanes did happens before all that follows.
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
  std::deque<stack*> finished_;  // stacks of lanes that finished in this launch; under ThreadSanitizer only
  std::vector<void*> mappings_;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace gpuheap::simulator
