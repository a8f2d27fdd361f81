// The settings of a host thread, and the function that finds them.
#pragma once

#include <gpuheap_simulator/settings.hpp>

#include <cstdint>

namespace gpuheap::simulator {

struct settings_state {
  settings now;
  std::uint64_t launches = 0;  // since the innermost scope began
};

[[nodiscard]] settings_state& thread_settings();

}  // namespace gpuheap::simulator
