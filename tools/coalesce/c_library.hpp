// The part of the C library that ranks on a GPU can use, and advice for the rest.
#pragma once

#include <string>
#include <string_view>

namespace coalesce {

enum class availability {
  there,    // device code can call it by its own name
  renamed,  // gpuheap/mpi/c_library.hpp has its replacement
  missing,
};
[[nodiscard]] availability availability_of(std::string_view function);
// The replacement of a variable of the C library; empty if there is none.
[[nodiscard]] std::string variable_of_library(std::string_view name);
// Advice for a function or a variable that is missing: the end of a sentence.
[[nodiscard]] std::string instead_of(std::string_view name);

}  // namespace coalesce
