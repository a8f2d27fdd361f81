// Turns decisions into changes of text.
#pragma once

#include "decide.hpp"
#include "edits.hpp"

namespace coalesce {

// The changes. A required change that is impossible becomes an error among the program's diagnostics.
[[nodiscard]] edits rewrite(options const& asked, program& p, decisions const& decided);

// Where a further #include goes in a file: after the last one of its head, or before the first line of code.
[[nodiscard]] unsigned offset_for_include(std::string const& text);

}  // namespace coalesce
