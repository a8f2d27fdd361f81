// Running a test under many schedules.
//
// A seed s stands for complete settings. Odd seeds run in the weak mode. s / 2 chooses the scheduler: 0 is round_robin, 1 is run_through,
// and from 2 on random and pct alternate, pct with depths from 2 to 5. s itself seeds the scheduler. A failing seed is therefore all that a
// replay needs:
//   GPUHEAP_SIMULATOR_REPLAY=<seed>       makes every explore() of the process run that seed alone.
//   GPUHEAP_SIMULATOR_FIRST_SEED=<seed>   makes every explore() begin at that seed, and run as many seeds as without it.
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
  std::uint64_t seed = 0;  // of the run that failed
  std::string what;        // how that run failed, and how to replay it; empty if no run failed

  explicit operator bool() const { return !failed; }
};

// The settings that a seed stands for. `base` gives the settings that the seed does not choose, but a larger step budget is cut to 20
// million points.
[[nodiscard]] settings settings_of_seed(std::uint64_t seed, settings const& base = current_settings());

namespace detail {
[[nodiscard]] exploration explore(std::uint64_t num_seeds, std::function<bool()> const& body, settings const& base);
}

// Runs `body` once for each seed 0..num_seeds-1 (or for the seeds that the environment variables above choose), on the calling thread,
// until a run fails. A run fails if `body` throws a std::exception or returns false. `body` must set up all that it uses, so that the
// replay of one seed does not depend on earlier runs; each run numbers its launches from 0. `base` gives the other settings, such as the
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
