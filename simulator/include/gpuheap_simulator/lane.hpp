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

// The part of a core that the inline paths use.
struct core {
  std::int64_t points_left = 0;  // until the scheduler chooses a lane
  bool weak = false;
};

// A fiber that a switch can leave and resume.
struct resumable {
  void* context = nullptr;  // the storage of a boost::context::fiber: where it resumes
  stack* on = nullptr;      // null: not started
};

// A switch touches the first cache line only.
struct alignas(64) lane : resumable {
  core* home = nullptr;
  lane* next = nullptr;  // the next lane in the ring of lanes that can run
  lane* previous = nullptr;
  warp* in = nullptr;
  // The operation that the lane is about to do, or waits in.
  char const* file = nullptr;
  std::uint32_t line = 0;
  operation doing = operation::none;
  std::uint8_t index = 0;  // in the warp
  bool runnable = false;
  bool release_fenced = false;  // under TSan: a release fence precedes

  std::uint64_t value = 0;   // the lane's input to a warp operation
  std::uint64_t result = 0;  // its output
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

// Lets the scheduler choose the next lane. Returns when `me` runs again.
void reschedule(lane* me);
[[noreturn]] void called_from_host(char const* what);
}  // namespace detail

// The lane that runs on this OS thread; null on the host side.
[[nodiscard]] GPUHEAP_SIMULATOR_UNCHECKED inline lane* current() { return detail::current_lane; }

[[nodiscard]] GPUHEAP_SIMULATOR_UNCHECKED inline bool in_weak_mode(lane const* me) { return me->home->weak; }

// The operation that the lane does now, for reports.
GPUHEAP_SIMULATOR_UNCHECKED inline void note(lane* me, operation what, site where) {
  me->doing = what;
  me->file = where.file;
  me->line = where.line;
}

// Comes before each visible operation: notes the operation for reports and lets another lane run.
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
// The number of the launch, counted for the host thread since its settings began.
[[nodiscard]] unsigned launch_id();
// Simulated time, a function of the number of scheduling points passed: 32 cycles or 20 ns each. Reading it is a scheduling point itself,
// so that a loop on a clock ends.
[[nodiscard]] std::uint64_t clock_cycles(site where);
[[nodiscard]] std::uint64_t clock_ns(site where);

// A scheduling point that yields: run_through continues with the next lane, pct drops the caller below all others.
void back_off(site where);

// Ends the kernel: launch() throws failure_kind::trap.
[[noreturn]] void trap(site where);

}  // namespace gpuheap::simulator
