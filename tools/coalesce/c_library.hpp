// What ranks on a GPU have of the C library.
#pragma once

#include <string>
#include <string_view>

namespace coalesce {

enum class availability {
  there,    // device code has it, or gets it otherwise
  renamed,  // gpuheap/mpi/c_library.hpp has it
  missing,
};
[[nodiscard]] availability availability_of(std::string_view function);
// What stands for a variable of the C library; empty: nothing.
[[nodiscard]] std::string variable_of_library(std::string_view name);
// What to do without a function or a variable that is missing: the end of a sentence.
[[nodiscard]] std::string instead_of(std::string_view name);

}  // namespace coalesce
