#include "pipeline.hpp"

#include "analysis.hpp"
#include "report.hpp"
#include "rewrite.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace coalesce {

int complain(std::string const& text) {
  std::fprintf(stderr, "gpuheap coalesce: %s\n", text.c_str());
  return failed;
}

namespace {

bool is_header(std::string const& path) {
  auto const ending = std::filesystem::path{path}.extension().string();
  return ending == ".h" || ending == ".hh" || ending == ".hpp" || ending == ".cuh" || ending == ".inl";
}

// Parses every source with the changed texts: what comes out must be a program too.
void parse_again(options const& asked, program& p, std::vector<std::string> const& sources, std::map<std::string, std::string> const& texts,
                 language in) {
  for (auto const& source : sources) {
    for (auto& e : parse(asked, source, texts, in).errors) {
      std::string const at = e.at.file.empty() ? "" : shown(e.at.file) + ":" + std::to_string(e.at.line) + ": ";
      p.diagnostics.push_back({severity::error,
                               "E4",
                               "the rewritten file would not compile: " + at + e.text + "; nothing is written. Rewrite the line by hand",
                               {source, 0, 0, 0},
                               {}});
    }
  }
}

}  // namespace

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

outcome coalesce_program(options const& asked, program& p, std::vector<std::string> const& sources,
                         std::map<std::string, std::string> const& texts, language in) {
  outcome result;
  std::vector<parsed> units;
  for (auto const& source : sources) {
    units.push_back(parse(asked, source, texts, in));
    p.diagnostics.insert(p.diagnostics.end(), units.back().errors.begin(), units.back().errors.end());
  }
  if (has_errors(p)) return result;
  analysis facts{asked, p};
  for (unsigned i = 0; i < units.size(); ++i) facts.collect(*units[i].ast, i);
  if (has_errors(p)) return result;
  facts.run();
  result.decided = decide(asked, p);
  result.changes = rewrite(asked, p, result.decided);
  auto rewritten = texts;
  for (auto const& file : result.changes.files()) rewritten[file] = result.changes.apply(file, p.texts.at(file));
  units.clear();
  if (!has_errors(p) && !result.changes.empty()) parse_again(asked, p, sources, rewritten, in);
  return result;
}

void show(options const& asked, program const& p, decisions const& decided) {
  if (asked.json) {
    std::fputs(json(p, asked, decided).c_str(), stdout);
  } else {
    std::fputs(diagnostics_text(p, asked.quiet).c_str(), stderr);
    std::fprintf(stderr, "%s\n", summary(decided).c_str());
  }
}

int write_files(std::vector<rewritten_file> const& files, bool must_match) {
  if (auto const problem = write_all(files, must_match); !problem.empty()) return complain(problem);
  for (auto const& file : files) std::fprintf(stderr, "written: %s\n", shown(file.path).c_str());
  return done;
}

}  // namespace coalesce
