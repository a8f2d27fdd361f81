// One simulated GPU thread, and the scheduling point that every operation passes.
//
// Lanes are fibers. One OS thread simulates one core. A lane stays on one core from start to end. So no two lanes of a core run at the same
// time, and the core's own state needs no atomics. `current()` is null on the host side.
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

// The members of a core that the inline functions use. The class `machine` derives from it.
struct core {
  std::int64_t points_left = 0;  // scheduling points until the scheduler chooses the next lane
  bool weak = false;
};

// A fiber that a switch can leave and resume.
struct resumable {
  void* context = nullptr;  // the storage of the boost::context::fiber that resumes it
  stack* on = nullptr;      // null: it has not started, or has ended
};

// A switch between lanes accesses only the first cache line of each.
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
  bool release_fenced = false;  // under ThreadSanitizer: the lane has passed a release fence

  std::uint64_t value = 0;   // the lane's input to a warp operation
  std::uint64_t result = 0;  // the operation's output for the lane
  std::uint32_t mask = 0;
  std::uint32_t argument = 0;
  std::uint32_t global_index = 0;
  std::uint32_t slot = 0;       // number of the lane among the core's resident lanes
  std::uint64_t priority = 0;   // for the scheduler pct
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

// Records the operation that the lane does now, for reports.
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

// ---- About the calling thread. On the host side these functions throw std::logic_error.

[[nodiscard]] unsigned lane_id();
[[nodiscard]] unsigned thread_in_block();
[[nodiscard]] unsigned threads_per_block();
[[nodiscard]] unsigned block_id();
[[nodiscard]] unsigned num_blocks();
[[nodiscard]] unsigned sm_id();
// The number of the launch, counted from 0 among those of the host thread since its current scoped_settings began.
[[nodiscard]] unsigned launch_id();
// Simulated time: 32 cycles, or 20 ns, for each scheduling point passed. Reading a clock is itself a scheduling point, so that a loop that
// waits for a time ends.
[[nodiscard]] std::uint64_t clock_cycles(site where);
[[nodiscard]] std::uint64_t clock_ns(site where);

// A scheduling point that ends the caller's turn: run_through continues with the next lane, and pct gives the caller the lowest priority.
// Does nothing on the host side.
void back_off(site where);

// Ends the kernel: launch() throws a failure of kind trap.
[[noreturn]] void trap(site where);

}  // namespace gpuheap::simulator
