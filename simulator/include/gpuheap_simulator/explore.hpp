// Running a test under many schedules.
//
// Seed s stands for a complete setting: odd seeds are in the weak mode, s / 2 chooses the scheduler (0: round_robin, 1: run_through, then
// random and pct in turn, pct with depths 2 to 5), and s itself seeds it. So a failing seed is all that a replay needs:
//   GPUHEAP_SIMULATOR_REPLAY=<seed>       makes every explore() of the process run that seed alone.
//   GPUHEAP_SIMULATOR_FIRST_SEED=<seed>   makes it begin there, and run as many seeds as ever.
#pragma once

#include <gpuheap_simulator/settings.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace gpuheap::simulator {

// The result of an exploration; true if every run passed.
struct exploration {
  unsigned num_runs = 0;
  bool failed = false;
  std::uint64_t seed = 0;  // of the first run that failed
  std::string what;        // how it failed and how to replay it; empty if none did

  explicit operator bool() const { return !failed; }
};

// The settings that a seed stands for; what it does not choose comes from `base`. The step budget is at most 20 million points.
[[nodiscard]] settings settings_of_seed(std::uint64_t seed, settings const& base = current_settings());

namespace detail {
[[nodiscard]] exploration explore(std::uint64_t num_seeds, std::function<bool()> const& body, settings const& base);
}

// Runs `body` once for each seed 0..num_seeds-1 (unless the environment says otherwise), on the calling thread, until one run fails: it
// throws, or returns false. The body must set up all that it uses, as its launches are numbered anew in each run. `base` gives the
// machine's size.
template <class Body>
[[nodiscard]] exploration explore(std::uint64_t num_seeds, Body&& body, settings const& base = current_settings()) {
  if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
    return detail::explore(
        num_seeds, [&] { return body(), true; }, base);
  } else {
    return detail::explore(
        num_seeds, [&] { return static_cast<bool>(body()); }, base);
  }
}

}  // namespace gpuheap::simulator
