// The words of C files, as they stand there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

struct c_token {
  unsigned offset = 0;
  std::string text;
};
// The tokens of a text, those of its directives among them; no comments.
[[nodiscard]] std::vector<c_token> tokens_of(std::string const& text);

// The C++ spelling of the C word `word`: the same, the word of C++ for it, or a name with `_` behind it if C++ has the word for itself.
// `used`: all words of the program. `there`: names that C++ or CUDA has and the program defines.
[[nodiscard]] std::string word_in_cpp(std::string const& word, std::set<std::string> const& used, std::set<std::string> const& there);
// Names of functions that CUDA's headers have, and a C program may define.
[[nodiscard]] bool is_of_cuda(std::string const& function);

// `#include <mpi.h>`: where its name stands, `<` and `>` included; empty where a file has none.
struct found_include {
  unsigned offset = 0, length = 0;
};
[[nodiscard]] std::vector<found_include> includes_of_mpi(std::string const& text);

}  // namespace coalesce
