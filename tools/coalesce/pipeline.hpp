// The steps that CUDA programs and C programs with MPI have in common: reading the files named, parsing, deciding, rewriting, writing.
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

// Prints `text` to standard error. Returns `failed`.
int complain(std::string const& text);

// Reads the files named on the command line into `p`. Returns those to parse: the sources, or the headers if only headers are named. `code`
// becomes `failed` if a file cannot be read.
[[nodiscard]] std::vector<std::string> sources_of(options const& asked, program& p, int& code);

struct outcome {
  decisions decided;
  edits changes;
};
// Parses the sources, decides which allocations are coalesced, rewrites these, and checks the result. `texts` replace the contents of
// files. Errors become diagnostics of `p`; those of the first parse have the id E1, and end the work.
[[nodiscard]] outcome coalesce_program(options const& asked, program& p, std::vector<std::string> const& sources,
                                       std::map<std::string, std::string> const& texts, language in);

// Prints the diagnostics and the summary, or JSON.
void show(options const& asked, program const& p, decisions const& decided);
// Reports errors that come before any decision: on standard error, and as JSON if asked for. Returns `failed`.
int refuse(options const& asked, program const& p, char const* why);
// The places of files under --output. Folders below the files' common folder are kept, so that their #includes still work.
struct output_places {
  std::map<std::string, std::string> of;  // by path
  std::string problem;                    // why the files cannot be written there; empty: they can
};
[[nodiscard]] output_places places_under(std::string const& folder, std::set<std::string> const& files,
                                         std::set<std::string> const& inputs);
// Writes the files, and prints their paths. Makes missing folders. Returns an exit code.
int write_files(std::vector<rewritten_file> const& files, bool must_match);

}  // namespace coalesce
