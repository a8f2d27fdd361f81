// The steps that CUDA programs and C programs of MPI have in common: reading the files named, parsing, deciding, rewriting, writing.
#pragma once

#include "decide.hpp"
#include "edits.hpp"
#include "frontend.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

inline constexpr char const* cannot_parse =
    "the files cannot be parsed, and nothing is written; options for the compiler (-I, -D, -std) come after --, or from -p DIR";

// Says it on standard error; `failed`.
int complain(std::string const& text);

// The files named, into `p`; those to be parsed: the sources, and of headers alone, those. `code` is `failed` if one cannot be read.
[[nodiscard]] std::vector<std::string> sources_of(options const& asked, program& p, int& code);

struct outcome {
  decisions decided;
  edits changes;
};
// Parses, decides and rewrites; what comes out is parsed again. `texts` stand in for files. Errors are among `p`'s diagnostics; those of
// the first parse have the id E1, and nothing follows them.
[[nodiscard]] outcome coalesce_program(options const& asked, program& p, std::vector<std::string> const& sources,
                                       std::map<std::string, std::string> const& texts, language in);

// Diagnostics and the summary, or JSON, for the user.
void show(options const& asked, program const& p, decisions const& decided);
// Errors before any decision, on standard error and, if asked for, as JSON; `failed`.
int refuse(options const& asked, program const& p, char const* why);
// Where files go under --output: the folders below the one that they have in common are kept, so that they find each other.
struct output_places {
  std::map<std::string, std::string> of;  // by path
  std::string problem;                    // why they cannot go there; empty: they can
};
[[nodiscard]] output_places places_under(std::string const& folder, std::set<std::string> const& files,
                                         std::set<std::string> const& inputs);
// Writes and says so; an exit code. Folders that are missing are made.
int write_files(std::vector<rewritten_file> const& files, bool must_match);

}  // namespace coalesce
