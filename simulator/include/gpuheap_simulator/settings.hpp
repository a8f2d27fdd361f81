// The settings of kernels' runs: the machine's size, the schedule and its seed, the memory model.
//
// Settings come from the environment once, at first use, and can be replaced for a scope. Environment variables:
//   GPUHEAP_SIMULATOR_SCHEDULER  run_through, round_robin (default), random, pct
//   GPUHEAP_SIMULATOR_SEED       any 64-bit number (default 0)
//   GPUHEAP_SIMULATOR_DEPTH      of pct: number of priority changes plus one (default 3)
//   GPUHEAP_SIMULATOR_WEAK       1: loads may return stale values that the C++ model allows (default 0)
//   GPUHEAP_SIMULATOR_THREADS    OS threads that run blocks; 0: one per core (default 1). More than one: not replayable, never weak
//   GPUHEAP_SIMULATOR_SMS        multiprocessors (default 8)
//   GPUHEAP_SIMULATOR_BUDGET     scheduling points without a finished lane that count as a livelock (default 400,000,000)
//   GPUHEAP_SIMULATOR_STALL      warp:point:length, a warp that stops: see `stall` (default: none)
//   GPUHEAP_SIMULATOR_STACK_KIB  stack of a lane in KiB (default 64; 256 under a sanitizer)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpuheap::simulator {

// All of them are deterministic functions of the program and the seed. "Point": a scheduling point, i.e. an atomic, warp or block
// operation.
enum class scheduler_kind {
  run_through,  // a lane runs until it blocks, ends, backs off, or `patience` points have passed
  round_robin,  // the next lane runs after every point
  random,       // a lane drawn from all that can run, after runs of a mean length drawn per launch (1, 2, 8 or 32 points)
  pct,          // probabilistic concurrency testing: random priorities, the highest runs, `depth` - 1 drops of priority at random points
};

// A warp that stops for long: with the point numbered `at` of those that the lanes of warp `warp` pass (counted over the grid, from 0),
// none of its lanes runs for `points` scheduling points of others, or until nothing else can run. 0 points: no warp stops. With ever_after
// it stops until nothing else can run: others that wait for it in a loop are a livelock then.
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
  unsigned stale_one_in = 2;    // weak mode: one load in so many looks for a stale value
  stall stopped{};              // in launches on one OS thread

  friend bool operator==(settings const&, settings const&) = default;
};

// The settings that launches of the calling host thread use now.
[[nodiscard]] settings const& current_settings();

// The environment's settings. Throws std::invalid_argument naming the variable and what it takes.
[[nodiscard]] settings settings_from_environment();

// The environment variables that give these settings, as one shell prefix: "GPUHEAP_SIMULATOR_SCHEDULER=pct GPUHEAP_SIMULATOR_SEED=7 ...".
[[nodiscard]] std::string as_environment(settings const& s);

// Replaces the calling host thread's settings until destroyed. The n-th launch within a scope draws from (seed, n), so a scope replays as a
// whole.
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
