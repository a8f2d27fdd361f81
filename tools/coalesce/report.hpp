// The output for the user: diagnostics with their lines, the summary, JSON.
#pragma once

#include "decide.hpp"

#include <string>

namespace coalesce {

// `path`, relative to the current folder if it lies in that folder.
[[nodiscard]] std::string shown(std::string const& path);
// For each diagnostic, in the order of files and lines: "file:line:column: warning: [W1] text", the line with a caret, and the same for
// each hint. With `quiet`, only warnings and errors.
[[nodiscard]] std::string diagnostics_text(program const& p, bool quiet);
[[nodiscard]] std::string summary(decisions const& decided);
[[nodiscard]] std::string json(program const& p, options const& asked, decisions const& decided);
[[nodiscard]] bool has_errors(program const& p);
[[nodiscard]] bool has_error_of(program const& p, std::string const& id);

}  // namespace coalesce
