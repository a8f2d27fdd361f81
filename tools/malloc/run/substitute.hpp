// Which code the driver gets in place of what a program loads.
#pragma once

#include <string>

#include "link.hpp"

namespace gpuheap::unchanged {

struct substitute {
  linked_code code;  // null: what the program brought. Otherwise it stays as long as the process
};

/// @param image As the program gave it to the driver.
[[nodiscard]] substitute substitute_for(void const* image) noexcept;
/// @param path Of a file with code.
[[nodiscard]] substitute substitute_for_file(char const* path) noexcept;

/// Tells why a module of this program is not served.
void not_served(std::string const& why);

}  // namespace gpuheap::unchanged
