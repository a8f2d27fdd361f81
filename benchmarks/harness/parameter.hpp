// The parameters that a case can vary: the keys of --point.
#pragma once

#include <cstdint>

namespace gpuheap::bench {

struct parameter {
  char const* name;
  char const* fallback;           // its value where a point does not give it
  std::uint64_t smallest = 0;     // bounds of a number
  std::uint64_t largest = 0;      // 0: not a number
  char const* choices = nullptr;  // of a word: "warm|cold"; null with largest == 0: any text
  bool is_size = false;           // bytes as people write them, "24GiB"; may be empty
};

[[nodiscard]] constexpr parameter number_parameter(char const* name, char const* fallback, std::uint64_t smallest, std::uint64_t largest) {
  return {name, fallback, smallest, largest, nullptr};
}
[[nodiscard]] constexpr parameter choice_parameter(char const* name, char const* fallback, char const* choices) {
  return {name, fallback, 0, 0, choices};
}
[[nodiscard]] constexpr parameter size_parameter(char const* name, char const* fallback) { return {name, fallback, 0, 0, nullptr, true}; }
[[nodiscard]] constexpr parameter text_parameter(char const* name, char const* fallback) { return {name, fallback, 0, 0, nullptr}; }

// Threads of a launch, and bytes of a request: most cases have both.
inline constexpr parameter threads_parameter = number_parameter("threads", "100000", 1, std::uint64_t{1} << 24);
inline constexpr parameter bytes_parameter = number_parameter("bytes", "16", 1, std::uint64_t{1} << 40);
// warm: earlier rounds took and gave back everything once. cold: the heap is made anew before each run, whose requests are its first.
inline constexpr parameter state_parameter = choice_parameter("state", "warm", "warm|cold");
// The point's own heap in place of the session's: at_point() in case.hpp.
inline constexpr parameter heap_parameter = size_parameter("heap", "");
inline constexpr parameter block_threads_parameter = number_parameter("block_threads", "256", 1, 1024);

}  // namespace gpuheap::bench
