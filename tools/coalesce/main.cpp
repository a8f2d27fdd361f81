// gpuheap-coalesce: reads CUDA files, decides which allocations all threads make together, and rewrites them.
#include "analysis.hpp"
#include "frontend.hpp"
#include "report.hpp"
#include "rewrite.hpp"

#include <cstdio>
#include <filesystem>

namespace {

using namespace coalesce;

constexpr int done = 0, failed = 1, nothing_to_do = 2;

void print_errors(program const& p) { std::fputs(diagnostics_text(p, true).c_str(), stderr); }

int complain(std::string const& text) {
  std::fprintf(stderr, "gpuheap coalesce: %s\n", text.c_str());
  return failed;
}

bool is_header(std::string const& path) {
  auto const ending = std::filesystem::path{path}.extension().string();
  return ending == ".h" || ending == ".hh" || ending == ".hpp" || ending == ".cuh" || ending == ".inl";
}

// Files to be parsed: the sources, and of headers alone, those.
std::vector<std::string> sources_of(options const& asked, program& p, int& code) {
  std::vector<std::string> sources;
  bool any_source = false;
  for (auto const& file : asked.files) any_source = any_source || !is_header(file);
  for (auto const& file : asked.files) {
    std::string text;
    if (!std::filesystem::is_regular_file(file) || !read_file(file, text)) {
      code = complain("cannot read the file '" + file + "'");
      return {};
    }
    std::string const path = path_of(file);
    if (!p.editable.insert(path).second) continue;
    p.texts.emplace(path, text);
    if (!any_source || !is_header(file)) sources.push_back(path);
  }
  return sources;
}

// Parses every source with the changed texts: what comes out must be a program too.
void parse_again(options const& asked, program& p, std::vector<std::string> const& sources,
                 std::map<std::string, std::string> const& texts) {
  for (auto const& source : sources) {
    for (auto& e : parse(asked, source, texts).errors) {
      std::string const at = e.at.file.empty() ? "" : shown(e.at.file) + ":" + std::to_string(e.at.line) + ": ";
      p.diagnostics.push_back({severity::error,
                               "E4",
                               "the rewritten file would not compile: " + at + e.text + "; nothing is written. Rewrite the line by hand",
                               {source, 0, 0, 0},
                               {}});
    }
  }
}

// The rewritten files' places under --output.
std::vector<rewritten_file> outputs(options const& asked, program const& p, edits const& changes) {
  std::vector<rewritten_file> files;
  for (auto const& path : p.editable) {
    auto const& before = p.texts.at(path);
    auto const after = changes.apply(path, before);
    if (asked.in_place && after == before) continue;
    std::string const to = asked.in_place ? path : asked.output + "/" + std::filesystem::path{path}.filename().string();
    files.push_back({to, before, after});
  }
  return files;
}

int run(options const& asked) {
  program p;
  int code = done;
  auto const sources = sources_of(asked, p, code);
  if (code != done) return code;
  if (!asked.database.empty() && !std::filesystem::is_regular_file(asked.database + "/compile_commands.json"))
    return complain("-p: there is no " + asked.database + "/compile_commands.json");

  std::vector<parsed> units;
  for (auto const& source : sources) {
    units.push_back(parse(asked, source, {}));
    p.diagnostics.insert(p.diagnostics.end(), units.back().errors.begin(), units.back().errors.end());
  }
  if (has_errors(p)) {
    print_errors(p);
    return complain(
        "the files cannot be parsed, and nothing is written; options for the compiler (-I, -D, -std) come after --, or from -p DIR");
  }
  analysis facts{asked, p};
  for (unsigned i = 0; i < units.size(); ++i) facts.collect(*units[i].ast, i);
  if (has_errors(p)) return print_errors(p), complain("errors: nothing is written");
  facts.run();
  auto const decided = decide(asked, p);
  auto const changes = rewrite(asked, p, decided);

  std::map<std::string, std::string> texts;
  for (auto const& file : changes.files()) texts[file] = changes.apply(file, p.texts.at(file));
  units.clear();
  if (!has_errors(p) && !changes.empty()) parse_again(asked, p, sources, texts);

  if (asked.json) {
    std::fputs(json(p, asked, decided).c_str(), stdout);
  } else {
    std::fputs(diagnostics_text(p, asked.quiet).c_str(), stderr);
    std::fprintf(stderr, "%s\n", summary(decided).c_str());
  }
  if (has_errors(p)) return complain("errors: nothing is written");
  if (changes.empty() && asked.output.empty()) {
    std::fputs("nothing to rewrite\n", stderr);
    return nothing_to_do;
  }
  if (asked.in_place || !asked.output.empty()) {
    auto const files = outputs(asked, p, changes);
    if (auto const problem = write_all(files, asked.in_place); !problem.empty()) return complain(problem);
    for (auto const& file : files) std::fprintf(stderr, "written: %s\n", shown(file.path).c_str());
  } else if (!asked.json) {
    for (auto const& file : changes.files()) std::fputs(changes.diff(file, p.texts.at(file), shown(file)).c_str(), stdout);
  }
  return changes.empty() ? nothing_to_do : done;
}

}  // namespace

int main(int count, char** words) {
  int code = done;
  auto const asked = parse_options(count, words, code);
  return asked ? run(*asked) : code;
}
