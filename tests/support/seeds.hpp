// The number of schedules that an exploration runs, and whether tests that take long in the simulator run as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace test {

// For all cases that must pass: as many as GPUHEAP_SEEDS says; else GPUHEAP_SEEDS_PERCENT of what the case says, but not fewer than 10 of
// them, or 4 where less than a quarter is asked for; else what the case says.
[[nodiscard]] inline std::uint64_t num_seeds(std::uint64_t otherwise) {
  if (char const* const text = std::getenv("GPUHEAP_SEEDS")) return std::strtoull(text, nullptr, 10);
  char const* const percent = std::getenv("GPUHEAP_SEEDS_PERCENT");
  if (percent == nullptr) return otherwise;
  std::uint64_t const part = std::strtoull(percent, nullptr, 10);
  std::uint64_t const fewest = part < 25 ? 4 : 10;
  return std::max(std::min(otherwise, fewest), otherwise * part / 100);
}

// Whether tests that take long in the simulator have all their threads and blocks: not if GPUHEAP_SEEDS_PERCENT says less than 100.
[[nodiscard]] inline bool in_full() {
  char const* const percent = std::getenv("GPUHEAP_SEEDS_PERCENT");
  return percent == nullptr || std::strtoull(percent, nullptr, 10) >= 100;
}

}  // namespace test
