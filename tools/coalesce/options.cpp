#include "options.hpp"

#include <cstdio>
#include <functional>
#include <map>

namespace coalesce {

namespace {

constexpr char const* usage = R"(usage: gpuheap coalesce [options] FILE.cu ... [-- compiler options]
       gpuheap coalesce --mpi [options] FILE.c ... [-- compiler options]

Rewrites calls of malloc, calloc and new in device code that all threads reach with one size to collective calls, and all others, with free and
delete, to calls of the same heap. Headers with device code are rewritten only if they are named too. Without --in-place or --output, nothing is
written: the change is printed as a unified diff, and what was decided for each call on standard error.

With --mpi the files are a C program of MPI. It becomes a CUDA program whose ranks are GPU threads, and whose allocations are then decided on
as above: FILE.cu for FILE.c, printed as a diff, or written with --output. The C files stay as they are.

  --dry-run          print the diff (the default)
  --in-place         write the files; all of them, or none
  --output DIR       write the rewritten files into DIR, under their names
  --json             print decisions as JSON instead of the diff
  --quiet            print no remarks, warnings and errors only

  --analysis flow|pattern   follow values and branches (the default), or match the published tool's patterns
  --level block|warp|grid   groups of threads that allocate together: default block
  --no-census        the allocator counts on every thread of a group, also on those that have ended
  --dynamic          calls that are not collective are served together for the lanes that come together at run time
  --register NAME    a library function adapted by hand: it takes the flag as a further argument; may be repeated
  --root NAME        a device function that every thread calls, with the same arguments, as a kernel; may be repeated
  --heap-bytes TEXT  the argument of the inserted init(), C++ text; default: none, so GPUHEAP_BYTES or the heap's default decides
  --no-init          insert no initialisation and clean-up into main

  -p DIR             read compiler options from DIR/compile_commands.json
  --cuda-path DIR    the CUDA toolkit; default: CUDA_PATH, /usr/local/cuda
  --no-toolkit       parse with built-in declarations instead of a toolkit's headers

Exit codes: 0 done, 1 error and nothing written, 2 nothing to rewrite.
)";

std::optional<options> complain(std::string const& text, int& code) {
  std::fprintf(stderr, "gpuheap coalesce: %s\n", text.c_str());
  code = 1;
  return std::nullopt;
}

}  // namespace

std::optional<options> parse_options(int count, char const* const* words, int& code) {
  options o;
  std::string problem;
  std::map<std::string, bool*> const flags{
      {"--in-place", &o.in_place},     {"--json", &o.json},   {"--dynamic", &o.dynamic},
      {"--no-toolkit", &o.no_toolkit}, {"--quiet", &o.quiet}, {"--mpi", &o.mpi},
  };
  std::map<std::string, std::function<void(std::string const&)>> const valued{
      {"--output", [&](std::string const& v) { o.output = v; }},
      {"--register", [&](std::string const& v) { o.registered.insert(v); }},
      {"--root", [&](std::string const& v) { o.roots.insert(v); }},
      {"--heap-bytes", [&](std::string const& v) { o.heap_bytes = v; }},
      {"--cuda-path", [&](std::string const& v) { o.toolkit = v; }},
      {"-p", [&](std::string const& v) { o.database = v; }},
      {"--analysis",
       [&](std::string const& v) {
         if (v != "flow" && v != "pattern") problem = "--analysis: '" + v + "' is neither flow nor pattern";
         o.pattern = v == "pattern";
       }},
      {"--level",
       [&](std::string const& v) {
         if (v != "grid" && v != "block" && v != "warp") problem = "--level: '" + v + "' is none of block, warp, grid";
         o.level = v == "grid" ? scope::grid : v == "warp" ? scope::warp : scope::block;
       }},
  };
  bool dry = false;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word == "--") {
      o.compiler.assign(words + i + 1, words + count);
      break;
    }
    if (word == "-h" || word == "--help") {
      std::fputs(usage, stdout);
      code = 0;
      return std::nullopt;
    }
    if (word == "--dry-run") {
      dry = true;
    } else if (word == "--no-census") {
      o.census = false;
    } else if (word == "--no-init") {
      o.init = false;
    } else if (auto const flag = flags.find(word); flag != flags.end()) {
      *flag->second = true;
    } else if (word.size() > 1 && word[0] == '-') {
      auto const equals = word.rfind("--", 0) == 0 ? word.find('=') : std::string::npos;
      auto const option = valued.find(word.substr(0, equals));
      if (option == valued.end())
        return complain("there is no option '" + word + "': see --help; options for the compiler come after --", code);
      if (equals == std::string::npos && i + 1 == count) return complain(word + " needs a value: see --help", code);
      option->second(equals == std::string::npos ? words[++i] : word.substr(equals + 1));
      if (!problem.empty()) return complain(problem, code);
    } else {
      o.files.push_back(word);
    }
  }
  if (o.files.empty()) return complain("name the files to look at: gpuheap coalesce FILE.cu ...; --help lists the options", code);
  if (dry + o.in_place + !o.output.empty() > 1) return complain("--dry-run, --in-place and --output exclude each other: choose one", code);
  if (o.mpi && o.in_place) return complain("--mpi makes new files: name a folder for them with --output DIR, in place of --in-place", code);
  if (o.mpi && !o.init) return complain("--mpi writes main anew, and --no-init has no meaning there: leave it out", code);
  if (o.pattern) o.census = false;
  return o;
}

}  // namespace coalesce
