// The result of running one point.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpuheap::bench {

// One metric of one point, with every run's value.
struct row {
  char const* metric;
  char const* unit;
  std::vector<double> samples;
};

enum class outcome_status {
  ok,
  unsupported,  // cannot be done by this allocator, in this heap or on this machine
  timeout,      // would not be done in time
  wrong,        // memory was handed out twice, lost its contents, or was misaligned
};

struct outcome {
  outcome_status status = outcome_status::ok;
  std::string reason;  // empty if ok
  std::vector<row> rows;
};

[[nodiscard]] inline outcome unsupported(std::string reason) { return {outcome_status::unsupported, std::move(reason), {}}; }
[[nodiscard]] inline outcome timed_out(std::string reason) { return {outcome_status::timeout, std::move(reason), {}}; }
[[nodiscard]] inline outcome wrong(std::string reason) { return {outcome_status::wrong, std::move(reason), {}}; }

}  // namespace gpuheap::bench
