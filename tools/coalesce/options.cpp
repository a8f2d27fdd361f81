#include "options.hpp"

#include <cstdio>
#include <functional>
#include <map>

namespace coalesce {

namespace {

constexpr char const* usage =
#include "usage.inc"  // the command line `gpuheap` shows the same text where this tool is not built
    ;

std::optional<options> complain(std::string const& text, int& code) {
  std::fprintf(stderr, "gpuheap coalesce: %s\n", text.c_str());
  code = failed;
  return std::nullopt;
}

}  // namespace

std::optional<options> parse_options(int count, char const* const* words, int& code) {
  options o;
  std::string problem;
  std::map<std::string, bool*> const flags{
      {"--in-place", &o.in_place}, {"--json", &o.json}, {"--dynamic", &o.dynamic}, {"--no-toolkit", &o.no_toolkit},
      {"--quiet", &o.quiet},       {"--mpi", &o.mpi},   {"--dry-run", &o.dry},
  };
  std::map<std::string, std::function<void(std::string const&)>> const valued{
      {"--output",
       [&](std::string const& v) {
         if (v.empty()) problem = "--output: '' is no folder: name one that is there";
         o.output = v;
       }},
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
    if (word == "--no-census") {
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
  if (o.in_place && !o.output.empty()) return complain("--in-place and --output exclude each other: choose one", code);
  if (o.mpi && o.in_place) return complain("--mpi makes new files: name a folder for them with --output DIR, in place of --in-place", code);
  if (o.mpi && !o.init) return complain("--mpi writes main anew, and --no-init has no meaning there: leave it out", code);
  if (o.pattern) o.census = false;
  return o;
}

}  // namespace coalesce
