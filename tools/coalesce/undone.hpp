// Parts of the analysis that a test leaves out, to see that generated kernels reveal the omission.
#pragma once

#ifdef COALESCE_MUTANTS
#include <cstdlib>
#endif

#include <string_view>

namespace coalesce {

/// @brief Whether a part of the analysis is left out.
///
/// @param part the name of the part
/// @return in the tool, false. In the tests' own build of the tool: whether the environment variable COALESCE_UNDONE, a list separated by
/// commas, has the part
[[nodiscard]]
#ifdef COALESCE_MUTANTS
inline bool
undone(std::string_view part) {
  char const* const named = std::getenv("COALESCE_UNDONE");
  std::string_view all = named == nullptr ? "" : named;
  while (!all.empty()) {
    auto const end = all.find(',');
    if (all.substr(0, end) == part) return true;
    all.remove_prefix(end == std::string_view::npos ? all.size() : end + 1);
  }
  return false;
}
#else
constexpr bool
undone(std::string_view) {
  return false;
}
#endif

}  // namespace coalesce
