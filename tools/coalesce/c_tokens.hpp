// The tokens of C source files.
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
// The tokens of a text, including those of its directives, without comments.
[[nodiscard]] std::vector<c_token> tokens_of(std::string const& text);

// The C++ spelling of the C word `word`: the same word, another spelling in C++, or the word with `_` appended if it is a keyword or a
// taken name in C++. `used`: all words of the program, which a new name avoids. `there`: names that C++ or CUDA has, and that the program
// defines too.
[[nodiscard]] std::string word_in_cpp(std::string const& word, std::set<std::string> const& used, std::set<std::string> const& there);
// Whether CUDA's headers declare a function of this name, which a C program may also define.
[[nodiscard]] bool is_of_cuda(std::string const& function);

// The place of the header's name in an `#include` of mpi.h, with its `<` and `>` or quotes.
struct found_include {
  unsigned offset = 0, length = 0;
};
// All includes of mpi.h in a text.
[[nodiscard]] std::vector<found_include> includes_of_mpi(std::string const& text);

}  // namespace coalesce
