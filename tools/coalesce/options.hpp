// The command line of gpuheap-coalesce.
#pragma once

#include "facts.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

inline constexpr int done = 0, nothing_to_do = 1, failed = 2;  // exit codes, the same for all commands of the project

struct options {
  std::vector<std::string> files;
  std::vector<std::string> compiler;  // after `--`
  std::string database;               // folder of compile_commands.json
  std::string toolkit;                // CUDA toolkit; empty: the usual places
  std::string output;                 // folder for the rewritten files
  std::string heap_bytes;             // the argument of init(), as C++ text
  std::set<std::string> registered, roots;
  scope level = scope::block;
  bool pattern = false;  // --analysis pattern: the paper's pattern matching instead of the data flow
  bool census = true;    // the collective heap counts the threads that have not ended
  bool dynamic = false, dry = false, in_place = false, json = false, no_toolkit = false, init = true, quiet = false;
  bool mpi = false;  // the files are a C program of MPI
};

// nullopt after an error or --help, with the exit code in `code`.
[[nodiscard]] std::optional<options> parse_options(int count, char const* const* words, int& code);

}  // namespace coalesce
