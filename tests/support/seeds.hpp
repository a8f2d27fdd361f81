// How many schedules an exploration runs.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace test {

// As many as GPUHEAP_SEEDS says, for all cases that must pass; else what the case says.
[[nodiscard]] inline std::uint64_t num_seeds(std::uint64_t otherwise) {
  char const* const text = std::getenv("GPUHEAP_SEEDS");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace test
