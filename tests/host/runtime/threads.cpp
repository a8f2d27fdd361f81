// Runs the threads of a kernel. A worker is a fiber that runs one thread after the other; one that meets a barrier keeps its worker until
// all others have met it, and the next thread gets another. So a kernel without barriers takes one worker and no switches between its
// threads.

#include <cuda_runtime.h>

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t stack_bytes = 64 << 10;

struct worker {
  boost::context::fiber body;
  boost::context::fiber caller;
  uint3 thread;
};

std::deque<worker> workers;  // whose addresses stay
std::vector<worker*> idle, waiting;
worker* running = nullptr;

// Of the block that runs.
void (*call)(void const*) = nullptr;
void const* argument = nullptr;
unsigned next_thread = 0, num_threads = 0;

void run_threads() {
  while (next_thread < num_threads) {
    unsigned const number = next_thread++;
    threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    call(argument);
  }
}

void resume(worker* which) {
  running = which;
  which->body = std::move(which->body).resume();
  running = nullptr;
}

worker* free_worker() {
  if (!idle.empty()) {
    worker* const found = idle.back();
    idle.pop_back();
    return found;
  }
  worker* const made = &workers.emplace_back();
  made->body =
      boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(stack_bytes), [made](boost::context::fiber&& caller) {
        made->caller = std::move(caller);
        for (;;) {
          run_threads();
          idle.push_back(made);
          made->caller = std::move(made->caller).resume();
        }
        return std::move(made->caller);
      });
  return made;
}

void run_block() {
  next_thread = 0;
  while (next_thread < num_threads) resume(free_worker());
  while (!waiting.empty()) {
    std::vector<worker*> const all = std::exchange(waiting, {});
    // A barrier is met by all threads or by none, but for those that have ended.
    for (worker* const each : all) {
      threadIdx = each->thread;
      resume(each);
    }
  }
}

}  // namespace

void __syncthreads() {
  worker* const own = running;
  own->thread = threadIdx;
  waiting.push_back(own);
  own->caller = std::move(own->caller).resume();
}

void runtime_run(driver_double::launch_shape const& shape, void (*each)(void const*), void const* with) {
  call = each;
  argument = with;
  gridDim = {shape.grid[0], shape.grid[1], shape.grid[2]};
  blockDim = {shape.block[0], shape.block[1], shape.block[2]};
  num_threads = blockDim.x * blockDim.y * blockDim.z;
  for (unsigned z = 0; z < gridDim.z; ++z) {
    for (unsigned y = 0; y < gridDim.y; ++y) {
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
}
