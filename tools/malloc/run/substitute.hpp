// The code that the driver gets in place of the code that a program loads.
#pragma once

#include <string>

#include "link.hpp"

namespace gpuheap::unchanged {

struct substitute {
  linked_code code;  // null: the program's own code. Otherwise it stays as long as the process
};

/// @param image The image as the program gave it to the driver.
[[nodiscard]] substitute substitute_for(void const* image) noexcept;
/// @param path The path of a file with code.
[[nodiscard]] substitute substitute_for_file(char const* path) noexcept;

/// Prints the reason for which a module of this program is not served.
void not_served(std::string const& why);

}  // namespace gpuheap::unchanged
