// Running a kernel.
#pragma once

#include <gpuheap_simulator/failure.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <cstdint>

namespace gpuheap::simulator {

struct kernel {
  void (*body)(void const* functor, unsigned index) = nullptr;
  void const* functor = nullptr;
  unsigned num_threads = 0;
  unsigned block_threads = 256;  // 1..1024
};

// Runs `body(functor, i)` for every i < num_threads as blocks of warps of 32 lanes and returns when all have ended. The last block and each
// block's last warp may be partial. Host side; may be called from several host threads at once, which then run independent machines.
//
// Throws failure; the kernel then ends at once: its lanes are abandoned where they are, and destructors of their local objects do not run.
// Memory written so far stays written. Device code must not switch lanes inside a catch block.
void launch(kernel const& k);

// About the calling host thread's last launch.
struct run_statistics {
  std::uint64_t points = 0;       // scheduling points passed
  std::uint64_t lanes = 0;        // lanes finished
  std::uint64_t stale_loads = 0;  // weak mode: loads that returned an old value
  bool stalled = false;           // whether the warp of settings::stopped came to the point at which it stops
};
[[nodiscard]] run_statistics const& last_run();

}  // namespace gpuheap::simulator
