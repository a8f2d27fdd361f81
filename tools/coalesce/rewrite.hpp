// Turns decisions into changes of text.
#pragma once

#include "decide.hpp"
#include "edits.hpp"

namespace coalesce {

// The changes that carry out the decisions. A required change that is impossible becomes an error among the diagnostics of `p`.
[[nodiscard]] edits rewrite(options const& asked, program& p, decisions const& decided);

// The offset in a file's text for a further #include: after the last #include at its head, or before the first line of code.
[[nodiscard]] unsigned offset_for_include(std::string const& text);

}  // namespace coalesce
