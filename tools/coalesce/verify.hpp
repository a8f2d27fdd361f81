// Checks, on the LLVM form of a rewritten program, whether the program keeps its promises. A promise is a `true` that an allocation gets as
// its last argument: all threads of the group make this call together, with one size.
//
// The source analysis proposes promises, and can say why a call is left alone. This check does not use it. It sees only the rewritten
// program, inlined into each kernel, with its variables as values. For each promise it asks whether all threads of the group make the call,
// with one size, and whether none of them may wait for another one of the group. The rewriter takes back a promise that is not proven here.
#pragma once

#include "lower.hpp"

#include <string>
#include <vector>

namespace coalesce {

// A promise that is not proven.
struct doubt {
  std::vector<place> calls;  // the allocation, and the calls that lead to it, innermost first; lines and columns only
  std::string rule, text;    // the rule and the text of a diagnostic
  place cause_at;
  std::string cause;  // empty: none is known
};
[[nodiscard]] std::vector<doubt> verify(options const& asked, lowered const& code);

}  // namespace coalesce
