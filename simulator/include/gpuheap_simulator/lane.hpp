// One simulated GPU thread, and the scheduling point that every operation passes.
//
// Lanes are fibers. A lane belongs to one core (an OS thread's part of the machine) from start to end, so no two lanes of a core run at
// once, and the core's own state needs no atomics. `current()` is null on the host side.
#pragma once

#include <gpuheap_simulator/operation.hpp>
#include <gpuheap_simulator/sanitizers.hpp>

#include <cstdint>

namespace gpuheap::simulator {

inline constexpr unsigned warp_lanes = 32;

struct lane;
struct warp;
struct block;
struct stack;
struct thread_view;  // weak mode

// What the inline paths touch of a core.
struct core {
  std::int64_t points_left = 0;  // until the scheduler is asked
  bool weak = false;
};

// Something that a fiber switch can leave and come back to.
struct resumable {
  void* context = nullptr;  // where to go on
  stack* on = nullptr;      // null: not started
};

// The first cache line is what a switch touches.
struct alignas(64) lane : resumable {
  core* home = nullptr;
  lane* next = nullptr;  // in the ring of those that can run
  lane* previous = nullptr;
  warp* in = nullptr;
  // The operation that the lane is about to do, or waits in.
  char const* file = nullptr;
  std::uint32_t line = 0;
  operation doing = operation::none;
  std::uint8_t index = 0;  // in the warp
  bool runnable = false;
  bool release_fenced = false;  // under TSan: a release fence precedes

  std::uint64_t value = 0;   // what the lane brings to a warp operation
  std::uint64_t result = 0;  // what it takes away
  std::uint32_t mask = 0;
  std::uint32_t argument = 0;
  std::uint32_t global_index = 0;
  std::uint32_t slot = 0;       // number of the lane among the resident ones of the core
  std::uint64_t priority = 0;   // pct
  std::uint32_t run_index = 0;  // position in the scheduler's array
  thread_view* view = nullptr;

  [[nodiscard]] site at() const { return {file, line}; }
};

namespace detail {
extern __thread lane* current_lane;

// Lets the scheduler choose who goes on. Returns when `me` runs again.
void reschedule(lane* me);
[[noreturn]] void called_from_host(char const* what);
}  // namespace detail

// The lane that runs on this OS thread; null on the host side.
[[nodiscard]] GPUHEAP_SIMULATOR_UNCHECKED inline lane* current() { return detail::current_lane; }

[[nodiscard]] GPUHEAP_SIMULATOR_UNCHECKED inline bool in_weak_mode(lane const* me) { return me->home->weak; }

// What the lane does now, for reports.
GPUHEAP_SIMULATOR_UNCHECKED inline void note(lane* me, operation what, site where) {
  me->doing = what;
  me->file = where.file;
  me->line = where.line;
}

// Before each visible operation: notes it for reports and lets another lane run.
GPUHEAP_SIMULATOR_UNCHECKED inline void scheduling_point(lane* me, operation what, site where) {
  note(me, what, where);
  if (--me->home->points_left <= 0) detail::reschedule(me);
}

// ---- the calling thread. Device side only: on the host they throw.

[[nodiscard]] unsigned lane_id();
[[nodiscard]] unsigned thread_in_block();
[[nodiscard]] unsigned threads_per_block();
[[nodiscard]] unsigned block_id();
[[nodiscard]] unsigned num_blocks();
[[nodiscard]] unsigned sm_id();
// Number of the launch among those of the host thread since its settings began.
[[nodiscard]] unsigned launch_id();
// Simulated time, a function of the number of scheduling points passed: 32 cycles or 20 ns each. A scheduling point itself, so that a loop
// on a clock ends.
[[nodiscard]] std::uint64_t clock_cycles(site where);
[[nodiscard]] std::uint64_t clock_ns(site where);

// A scheduling point that asks for another lane: run_through goes on to the next one, pct drops the caller below all others.
void back_off(site where);

// Ends the kernel: launch() throws failure_kind::trap.
[[noreturn]] void trap(site where);

}  // namespace gpuheap::simulator
