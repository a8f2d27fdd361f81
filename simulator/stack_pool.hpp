// Stacks of lanes, made once per OS thread and reused for ever.
#pragma once

#include <cstddef>
#include <vector>

namespace gpuheap::simulator {

// Lies at the top of the memory that it describes; the lane's frames grow down from `top`.
struct stack {
  std::byte* bottom;  // lowest usable byte; below it lies a guard page
  std::byte* top;
  stack* next_free;
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
    if (free_ == nullptr) grow();
    stack* const s = free_;
    free_ = s->next_free;
    return s;
  }
  void give_back(stack* s) {
    s->next_free = free_;
    free_ = s;
  }

 private:
  void grow();
  void release_all();

  std::size_t stack_bytes_ = 0;
  stack* free_ = nullptr;
  std::size_t made_ = 0;
  std::vector<void*> mappings_;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace gpuheap::simulator
