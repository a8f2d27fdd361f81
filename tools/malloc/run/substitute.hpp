// The code that the driver gets in place of the code that a program loads.
#pragma once

#include <string>

#include "jit_options.hpp"
#include "link.hpp"

namespace gpuheap::unchanged {

struct substitute {
  linked_code code;  // null: the program's own code. Otherwise it stays as long as the process
};

/// @param image The image as the program gave it to the driver.
/// @param asked Its options, which apply to its PTX.
[[nodiscard]] substitute substitute_for(void const* image, jit_options const& asked) noexcept;
/// @param path The path of a file with code.
/// @param asked Its options, which apply to its PTX.
[[nodiscard]] substitute substitute_for_file(char const* path, jit_options const& asked) noexcept;

/// Prints the reason for which a module of this program is not served.
void not_served(std::string const& why);

}  // namespace gpuheap::unchanged
