// Translates a C program of MPI to a CUDA program whose ranks are GPU threads, by changes of text; reports code that prevents it.
#pragma once

#include "edits.hpp"
#include "facts.hpp"
#include "options.hpp"

#include <map>
#include <string>
#include <vector>

namespace coalesce {

// The CUDA program. Its paths are in the folders of the C files: prog.cu for prog.c, and the same name for a header.
struct translation {
  std::map<std::string, std::string> texts, c_file_of;  // by path
  std::vector<std::string> sources;                     // the files in `texts` that are compiled
  edits changes;                                        // the changes of the C files
  std::string root;                                     // the function that each rank runs
};

// Reads the sources of `c`, and its other editable files as headers. Code that cannot be translated becomes an error among the diagnostics
// of `c`.
[[nodiscard]] translation translate(options const& asked, program& c, std::vector<std::string> const& sources);

}  // namespace coalesce
