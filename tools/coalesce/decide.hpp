// The decision on each allocation, release, call and function, and its reason. The flag is the last argument of a rewritten call: whether
// all threads of the group make the call together.
#pragma once

#include "facts.hpp"
#include "options.hpp"

#include <map>
#include <string>
#include <vector>

namespace coalesce {

enum class verdict : std::uint8_t {
  collective,  // the flag is `true`
  inherit,     // the flag is the function's own parameter
  dynamic,     // no flag: the heap's plain call
  untouched,   // left as it is
};
[[nodiscard]] char const* name_of(verdict v);

struct site_decision {
  site what;
  verdict is = verdict::untouched;
  std::string rule, function, parameter;  // the rule's id; the function that has the site; the flag's name in that function
  bool of_both_heaps = false;             // `new` in a template whose types belong to both heaps
};
struct call_decision {
  call what;
  verdict is = verdict::dynamic;
  std::string parameter;
};
struct decisions {
  std::vector<site_decision> sites;
  std::vector<call_decision> calls;
  std::vector<release> releases;
  std::vector<function_unit const*> with_parameter;
};

// Decides on all of `p`, and adds diagnostics to `p`.
[[nodiscard]] decisions decide(options const& asked, program& p);

}  // namespace coalesce
