// Whether a rewritten program keeps the promises that it makes: a second opinion, on LLVM's form of the program that comes out.
//
// What proposes promises knows the source, and can say why a call is left alone. What is here knows nothing of it: it sees that program
// only, inlined into each kernel, with its variables as values, and asks of each promise whether all threads of the group come, with one
// size, and whether none of them may be waiting for another one. A promise that is not proven here is taken back.
#pragma once

#include "lower.hpp"

#include <string>
#include <vector>

namespace coalesce {

// A promise that is not proven.
struct doubt {
  std::vector<place> calls;  // the allocation, and the calls that lead to it, the kernel's last; lines and columns
  std::string rule, text;    // as a diagnostic has them
  place cause_at;
  std::string cause;  // empty: none is known
};
[[nodiscard]] std::vector<doubt> verify(options const& asked, lowered const& code);

}  // namespace coalesce
