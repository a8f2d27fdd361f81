// The settings of kernels' runs: the machine's size, the schedule and its seed, the memory model.
//
// The environment gives the settings; it is read once, at first use. scoped_settings replaces them for a scope. Environment variables:
//   GPUHEAP_SIMULATOR_SCHEDULER  run_through, round_robin (default), random, pct
//   GPUHEAP_SIMULATOR_SEED       any 64-bit number (default 0)
//   GPUHEAP_SIMULATOR_DEPTH      for pct: the number of priority changes plus one (default 3)
//   GPUHEAP_SIMULATOR_WEAK       1: loads may return stale values that the C++ model allows (default 0)
//   GPUHEAP_SIMULATOR_THREADS    OS threads that run blocks; 0: one per CPU core (default 1). More than one: not replayable. Weak mode: 1
//   GPUHEAP_SIMULATOR_SMS        multiprocessors (default 8)
//   GPUHEAP_SIMULATOR_BUDGET     scheduling points without a finished lane after which a launch is a livelock (default 400,000,000)
//   GPUHEAP_SIMULATOR_STALL      warp:point:length, a warp that stops; length may be "ever": see `stall` (default: none)
//   GPUHEAP_SIMULATOR_STACK_KIB  stack of a lane in KiB (default 64; 256 under a sanitizer)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpuheap::simulator {

// Each schedule is a deterministic function of the program and the seed. A point is a scheduling point: an atomic, warp or block operation,
// a fence, a back-off or a clock read.
enum class scheduler_kind {
  run_through,  // a lane runs until it blocks, ends, backs off, or `patience` points have passed
  round_robin,  // the next lane runs after every point
  random,       // each turn, a lane drawn from all that can run; each launch draws the mean length of a turn (1, 2, 8 or 32 points)
  // Probabilistic concurrency testing: lanes have random priorities, and the lane of the highest priority runs. At `depth` - 1 random
  // points the running lane's priority drops below all others.
  pct,
};

// A warp that stops for a time. The lanes of warp `warp` (numbered over the grid, from 0) stop at their point number `at` (from 0). They go
// on when the other lanes have passed `points` scheduling points, or when no other lane can run. If `points` is 0, no warp stops. If it is
// `ever_after`, the warp goes on only when no other lane can run, so a lane that waits for the warp in a loop is then a livelock.
struct stall {
  static constexpr std::uint64_t ever_after = ~std::uint64_t{0};
  unsigned warp = 0;
  std::uint64_t at = 0;
  std::uint64_t points = 0;

  friend bool operator==(stall const&, stall const&) = default;
};

struct settings {
  scheduler_kind scheduler = scheduler_kind::round_robin;
  std::uint64_t seed = 0;
  unsigned depth = 3;
  bool weak = false;
  unsigned threads = 1;

  unsigned num_sms = 8;
  unsigned blocks_per_sm = 4;     // resident at once; further blocks wait for a slot
  unsigned threads_per_sm = 256;  // resident at once; one block is resident whatever its size
  std::uint64_t step_budget = 400'000'000;
  unsigned patience = 1024;     // points that run_through and pct give a lane before another one has its turn
  std::size_t stack_bytes = 0;  // 0: 64 KiB, or 256 KiB under a sanitizer
  unsigned stale_one_in = 2;    // weak mode: on average, one load in this many looks for a stale value
  stall stopped{};              // the warp that stops; only for launches on one OS thread

  friend bool operator==(settings const&, settings const&) = default;
};

// The settings that launches of the calling host thread use now.
[[nodiscard]] settings const& current_settings();

// The environment's settings. Throws std::invalid_argument for a wrong value; the text names the variable and the values that it takes.
[[nodiscard]] settings settings_from_environment();

// The environment variables that give these settings, as one shell prefix: "GPUHEAP_SIMULATOR_SCHEDULER=pct GPUHEAP_SIMULATOR_SEED=7 ...".
// It leaves out the settings without a variable, and the size of a stack.
[[nodiscard]] std::string as_environment(settings const& s);

// Replaces the calling host thread's settings until destroyed. The random numbers of the n-th launch within a scope depend on the seed and
// n alone, so a scope replays as a whole.
class scoped_settings {
 public:
  explicit scoped_settings(settings const& s);
  ~scoped_settings();
  scoped_settings(scoped_settings const&) = delete;
  scoped_settings& operator=(scoped_settings const&) = delete;

 private:
  settings before_;
  std::uint64_t launches_before_;
};

[[nodiscard]] char const* name_of(scheduler_kind kind);

}  // namespace gpuheap::simulator
