// The code that the driver gets instead of the code that a program loads.
#pragma once

#include <string>

#include "jit_options.hpp"
#include "link.hpp"

namespace gpuheap::unchanged {

struct substitute {
  linked_code code;  // null: the driver gets the program's own code. Linked code stays until the process ends
};

/// @param image The image as the program gave it to the driver.
/// @param asked The program's options for the PTX compiler, which apply to its PTX in the link.
[[nodiscard]] substitute substitute_for(void const* image, jit_options const& asked) noexcept;
/// @param path The path of a file with code.
/// @param asked The program's options for the PTX compiler, which apply to its PTX in the link.
[[nodiscard]] substitute substitute_for_file(char const* path, jit_options const& asked) noexcept;

/// Prints the reason why a module of this program is not served.
void not_served(std::string const& why);

}  // namespace gpuheap::unchanged
