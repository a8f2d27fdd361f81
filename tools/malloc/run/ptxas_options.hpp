// The options of ptxas that a program's PTX is compiled with, read from text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuheap::unchanged {

/// The options that the driver's linker also has. All others are left out.
struct ptxas_options {
  std::uint32_t most_registers = 0;  // the least of all bounds on registers per thread; 0: there is none
  std::optional<unsigned> level;     // of optimisation, 0 to 4
  bool debug = false;
  bool line_info = false;
};

/// @param text Options in any spelling that ptxas takes: one or two dashes, the short or the long name, a value after `=`, a space or
///   nothing. nvcc records those that its user passes by -Xptxas as they are, and its own -maxrregcount=40, -g and --generate-line-info.
/// @return The options, the last level of those that the text has. A value that is not a number, or too large, is left out.
[[nodiscard]] ptxas_options ptxas_options_in(std::string_view text);

}  // namespace gpuheap::unchanged
