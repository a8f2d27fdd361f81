// Checks whether a rewritten program keeps the promises that it makes: a second opinion, on LLVM's form of the rewritten program.
//
// The source analysis proposes promises, and can say why a call is left alone. This check does not use it. It sees only the rewritten
// program, inlined into each kernel, with its variables as values. For each promise it asks whether all threads of the group make the call,
// with one size, and whether none of them may be waiting for another one. A promise that is not proven here is taken back.
#pragma once

#include "lower.hpp"

#include <string>
#include <vector>

namespace coalesce {

// A promise that is not proven.
struct doubt {
  std::vector<place> calls;  // the allocation, and the calls that lead to it, the kernel's last; lines and columns
  std::string rule, text;    // the rule and the text of a diagnostic
  place cause_at;
  std::string cause;  // empty: none is known
};
[[nodiscard]] std::vector<doubt> verify(options const& asked, lowered const& code);

}  // namespace coalesce
