// The output for the user: diagnostics with their lines, the summary, JSON.
#pragma once

#include "decide.hpp"

#include <string>

namespace coalesce {

// `path` relative to the current folder, where it lies in it.
[[nodiscard]] std::string shown(std::string const& path);
// "file:line:column: warning: [W1] text", the line with a caret, and the same for each hint. In the order of files and lines.
[[nodiscard]] std::string diagnostics_text(program const& p, bool quiet);
[[nodiscard]] std::string summary(decisions const& decided);
[[nodiscard]] std::string json(program const& p, options const& asked, decisions const& decided);
[[nodiscard]] bool has_errors(program const& p);
[[nodiscard]] bool has_error_of(program const& p, std::string const& id);

}  // namespace coalesce
