// The CUDA backend of explore.hpp. The hardware chooses the schedules, so a test runs a few times, not once for each seed.
#pragma once

#include <gpuheap/simt/config.hpp>

#if GPUHEAP_HAS_HOST
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// The result of an exploration; true if every run passed.
struct exploration {
  unsigned num_runs = 0;
  bool failed = false;
  std::uint64_t seed = 0;  // number of the last run: the one that failed, if one did
  std::string what;        // how the run failed

  explicit operator bool() const { return !failed; }
};

// Runs `body` num_seeds times, but at most four times, and stops after the first run that fails. A run fails if `body` throws or returns
// false. `body` sets up all that it uses.
template <class Body>
[[nodiscard]] exploration explore(std::uint64_t num_seeds, Body&& body) {
  constexpr std::uint64_t most_runs = 4;
  exploration result;
  for (std::uint64_t run = 0; run < num_seeds && run < most_runs && !result.failed; ++run) {
    ++result.num_runs;
    result.seed = run;
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
        body();
      } else {
        result.failed = !static_cast<bool>(body());
        if (result.failed) result.what = "the test's own check failed";
      }
    } catch (std::exception const& e) {
      result.failed = true;
      result.what = e.what();
    }
  }
  return result;
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
#endif
