// The command line of gpuheap-bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuheap::bench {

struct options {
  bool help = false;
  bool describe = false;
  bool summary = false;
  bool allow_debug = false;
  bool first_run = false;
  bool serve = false;
  std::string case_name;
  std::string allocator;
  std::optional<std::uint64_t> heap_bytes;  // nothing: the backend's default
  unsigned runs = 10;
  std::uint64_t seed = 1;
  std::string graph_file;
  std::string scene_file;
  std::string trace_file;
  double enough_s = 0;              // 0: a point makes all its runs
  double timeout_s = 0;             // 0: none
  std::vector<std::string> points;  // as given; none: one point of fallbacks
  std::size_t skip = 0;
};

// Throws usage_error for an unknown option, a missing value, and a value that is not what the option takes.
[[nodiscard]] options parse_options(std::vector<std::string> const& arguments);

// The text of --help.
[[nodiscard]] char const* usage_text();

}  // namespace gpuheap::bench
