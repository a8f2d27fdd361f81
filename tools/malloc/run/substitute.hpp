// Which code the driver gets in place of what a program loads.
#pragma once

#include <string>

#include "jit_options.hpp"
#include "link.hpp"

namespace gpuheap::unchanged {

struct substitute {
  linked_code code;  // null: what the program brought. Otherwise it stays as long as the process
};

/// @param image As the program gave it to the driver.
/// @param asked Its options, which hold for its PTX.
[[nodiscard]] substitute substitute_for(void const* image, jit_options const& asked) noexcept;
/// @param path Of a file with code.
/// @param asked As before.
[[nodiscard]] substitute substitute_for_file(char const* path, jit_options const& asked) noexcept;

/// Tells why a module of this program is not served.
void not_served(std::string const& why);

}  // namespace gpuheap::unchanged
