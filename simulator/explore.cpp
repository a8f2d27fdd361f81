// Exploration of schedules by seed.
#include <gpuheap_simulator/explore.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>

namespace gpuheap::simulator {

namespace {

constexpr std::uint64_t most_points = 20'000'000;

std::optional<std::uint64_t> seed_from(char const* variable, char const* what) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return std::nullopt;
  char const* const end = text + std::strlen(text);
  std::uint64_t seed = 0;
  auto const [stop, error] = std::from_chars(text, end, seed);
  if (error != std::errc{} || stop != end) throw std::invalid_argument(std::string(variable) + "=" + text + ": expected " + what);
  return seed;
}

}  // namespace

settings settings_of_seed(std::uint64_t seed, settings const& base) {
  settings s = base;
  s.seed = seed;
  s.weak = seed % 2 != 0;
  s.threads = 1;
  s.step_budget = std::min(s.step_budget, most_points);
  std::uint64_t const choice = seed / 2;
  if (choice < 2) {
    s.scheduler = choice == 0 ? scheduler_kind::round_robin : scheduler_kind::run_through;
  } else {
    s.scheduler = choice % 2 == 0 ? scheduler_kind::random : scheduler_kind::pct;
    s.depth = static_cast<unsigned>(2 + choice / 2 % 4);
  }
  return s;
}

namespace detail {

exploration explore(std::uint64_t num_seeds, std::function<bool()> const& body, settings const& base) {
  std::optional<std::uint64_t> const replay = seed_from("GPUHEAP_SIMULATOR_REPLAY", "a seed that explore() reported");
  std::uint64_t const first = replay ? *replay : seed_from("GPUHEAP_SIMULATOR_FIRST_SEED", "the number of a seed").value_or(0);
  std::uint64_t const end = replay ? *replay + 1 : first + num_seeds;
  exploration result;
  for (std::uint64_t seed = first; seed < end && !result.failed; ++seed) {
    scoped_settings const scope(settings_of_seed(seed, base));
    ++result.num_runs;
    std::string how;
    try {
      if (body()) continue;
      how = "the test's own check failed\n  schedule: " + as_environment(current_settings());
    } catch (std::exception const& e) {
      how = e.what();
    }
    result.failed = true;
    result.seed = seed;
    result.what = "seed " + std::to_string(seed) + ": " + how + "\n  replay: GPUHEAP_SIMULATOR_REPLAY=" + std::to_string(seed);
  }
  return result;
}

}  // namespace detail

}  // namespace gpuheap::simulator
