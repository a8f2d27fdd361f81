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
// block's last warp may be partial. Called on the host side. Several host threads may call it at once; each runs a machine of its own.
//
// Throws failure when the kernel fails, and rethrows an exception of device code. The kernel then ends at once: its lanes are abandoned
// where they are, and the destructors of their local objects do not run. Memory written so far stays written. Throws std::invalid_argument
// for a wrong size of block, and std::logic_error when device code calls launch().
//
// Device code must not pass a scheduling point inside a catch block, because the C++ runtime keeps the caught exceptions for each OS
// thread, not for each lane.
void launch(kernel const& k);

// Counts of the calling host thread's last launch.
struct run_statistics {
  std::uint64_t points = 0;       // scheduling points passed
  std::uint64_t lanes = 0;        // lanes finished
  std::uint64_t stale_loads = 0;  // weak mode: loads that returned an old value
  bool stalled = false;           // whether the warp of settings::stopped reached the point at which it stops
};
[[nodiscard]] run_statistics const& last_run();

}  // namespace gpuheap::simulator
