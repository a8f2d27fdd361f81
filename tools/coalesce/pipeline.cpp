#include "pipeline.hpp"

#include "analysis.hpp"
#include "report.hpp"
#include "rewrite.hpp"
#include "verify.hpp"

#include <clang/Frontend/ASTUnit.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

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

// The place in the old text that `at`, a line and a column of the new text, comes from.
place way_back(place const& at, edits const& changes, program const& p, std::map<std::string, std::string> const& rewritten) {
  auto const old_text = p.texts.find(at.file);
  if (old_text == p.texts.end()) return at;
  auto const changed = rewritten.find(at.file);
  std::string const& text = changed == rewritten.end() ? old_text->second : changed->second;
  std::size_t offset = 0;
  for (unsigned line = 1; line < at.line && offset < text.size(); ++line) offset = text.find('\n', offset) + 1;
  offset += at.column == 0 ? 0 : at.column - 1;
  place was{at.file, changes.origin(at.file, static_cast<unsigned>(offset)), 1, 1};
  for (unsigned i = 0; i < was.offset && i < old_text->second.size(); ++i) {
    bool const line_ends = old_text->second[i] == '\n';
    was.line += line_ends;
    was.column = line_ends ? 1 : was.column + 1;
  }
  return was;
}

// The places that pass `true` and so may have made the promise: those among `calls`; if there are none, those on the lines of `calls`; if
// these have none either, all places that pass `true`.
std::set<std::pair<std::string, unsigned>> makers_of(std::vector<place> const& calls, decisions const& decided) {
  std::set<std::pair<std::string, unsigned>> exact, on_line, all;
  auto const take = [&](place const& at, verdict is) {
    if (is != verdict::collective) return;
    all.insert({at.file, at.offset});
    for (auto const& call : calls) {
      if (call.file != at.file) continue;
      if (call.offset == at.offset) exact.insert({at.file, at.offset});
      if (call.line == at.line) on_line.insert({at.file, at.offset});
    }
  };
  for (auto const& d : decided.sites) take(d.what.at, d.is);
  for (auto const& d : decided.calls) take(d.what.at, d.is);
  return !exact.empty() ? exact : !on_line.empty() ? on_line : all;
}

// Compiles the rewritten program, and checks its promises. Reports errors, and adds an objection for each promise that is not proven.
// Returns whether objections were added.
bool object(options const& asked, program& p, std::vector<std::string> const& sources, std::map<std::string, std::string> const& rewritten,
            language in, outcome const& made) {
  auto const code = lower(asked, sources, rewritten, in);
  for (auto const& e : code.errors) {
    std::string const at = e.at.file.empty() ? "" : shown(e.at.file) + ":" + std::to_string(e.at.line) + ": ";
    p.diagnostics.push_back({severity::error,
                             "E4",
                             "the rewritten file would not compile: " + at + e.text + "; nothing is written. Rewrite the line by hand",
                             {sources.front(), 0, 0, 0},
                             {}});
  }
  if (!code.errors.empty()) return false;
  auto const before = p.objections.size();
  for (auto& d : verify(asked, code)) {
    for (auto& call : d.calls) call = way_back(call, made.changes, p, rewritten);
    for (auto const& maker : makers_of(d.calls, made.decided))
      p.objections.insert({maker, {d.rule, d.text, {way_back(d.cause_at, made.changes, p, rewritten), d.cause}}});
  }
  return p.objections.size() != before;
}

// The sources that no other one includes. A source that another one includes is read there, as a header is, and need not compile by itself.
// Drops the units of the others.
std::vector<std::string> drop_included(std::vector<std::string> const& given, std::vector<parsed>& units) {
  std::vector<bool> dropped(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::size_t k = 0; k < given.size() && !dropped[i]; ++k)
      dropped[i] = k != i && !dropped[k] && units[k].ast != nullptr && includes(*units[k].ast, given[i]);
  }
  std::vector<std::string> sources;
  std::vector<parsed> kept;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (dropped[i]) continue;
    sources.push_back(given[i]);
    kept.push_back(std::move(units[i]));
  }
  units = std::move(kept);
  return sources;
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

outcome coalesce_program(options const& asked, program& p, std::vector<std::string> const& given,
                         std::map<std::string, std::string> const& texts, language in) {
  outcome result;
  std::vector<parsed> units;
  for (auto const& source : given) units.push_back(parse(asked, source, texts, in));
  auto const sources = drop_included(given, units);
  for (auto const& unit : units) p.diagnostics.insert(p.diagnostics.end(), unit.errors.begin(), unit.errors.end());
  // In CUDA that this tool made from C, code that the rewriter cannot follow is an error.
  for (auto& d : p.diagnostics) {
    if (d.id == "E7" && in != language::cuda) d.level = severity::error, d.id = "E1";
  }
  if (has_errors(p)) return result;
  auto const holes_begin =
      std::stable_partition(p.diagnostics.begin(), p.diagnostics.end(), [](auto const& d) { return d.id != std::string{"E7"}; });
  std::vector<diagnostic> holes{holes_begin, p.diagnostics.end()};
  p.diagnostics.erase(holes_begin, p.diagnostics.end());
  analysis facts{asked, p};
  for (unsigned i = 0; i < units.size(); ++i) facts.collect(*units[i].ast, i);
  if (has_errors(p)) return result;
  facts.run();
  units.clear();
  auto const said = p.diagnostics;
  // New objections change the decisions, so this repeats until there are none.
  do {
    p.diagnostics = said;
    result.decided = decide(asked, p);
    result.changes = rewrite(asked, p, result.decided);
    if (has_errors(p) || result.changes.empty()) break;
    for (auto& hole : holes) {
      hole.level = severity::error;
      hole.text =
          "the rewriter cannot follow this: " + hole.text + ": a program that allocates on the device and contains this is left unchanged";
      p.diagnostics.push_back(hole);
    }
    if (!holes.empty()) break;
    auto rewritten = texts;
    for (auto const& file : result.changes.files()) rewritten[file] = result.changes.apply(file, p.texts.at(file));
    if (!object(asked, p, sources, rewritten, in, result)) break;
  } while (true);
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

int refuse(options const& asked, program const& p, char const* why) {
  if (asked.json) std::fputs(json(p, asked, {}).c_str(), stdout);
  std::fputs(diagnostics_text(p, true).c_str(), stderr);
  return complain(why);
}

output_places places_under(std::string const& folder, std::set<std::string> const& files, std::set<std::string> const& inputs) {
  namespace fs = std::filesystem;
  output_places result;
  if (!fs::is_directory(folder)) {
    result.problem = "--output: there is no folder '" + folder + "': make it first, as with mkdir -p";
    return result;
  }
  fs::path common = fs::path{*files.begin()}.parent_path();
  for (auto const& file : files) {
    while (common.has_relative_path() && fs::path{file}.lexically_relative(common).string().rfind("..", 0) == 0)
      common = common.parent_path();
  }
  std::map<std::string, std::string> taken;
  for (auto const& file : files) {
    std::string const to = (fs::path{folder} / fs::path{file}.lexically_relative(common)).string();
    if (inputs.count(path_of(to)) != 0)
      result.problem = "--output: " + shown(path_of(to)) + " is one of the files given, which stay as they are: choose another folder";
    else if (fs::is_directory(to))
      result.problem = "--output: " + to + " is a folder, and a file is to be written there: remove it, or choose another folder";
    else if (auto const [other, is_new] = taken.emplace(path_of(to), file); !is_new)
      result.problem =
          "--output: " + shown(other->second) + " and " + shown(file) + " would both become " + to + ": give them different names";
    if (!result.problem.empty()) return result;
    result.of[file] = to;
  }
  return result;
}

int write_files(std::vector<rewritten_file> const& files, bool must_match) {
  for (auto const& file : files) {
    auto const folder = std::filesystem::path{file.path}.parent_path();
    std::error_code problem;
    if (!folder.empty()) std::filesystem::create_directories(folder, problem);
    if (problem) return complain("cannot make the folder " + folder.string() + ": " + problem.message() + ": nothing is written");
  }
  if (auto const problem = write_all(files, must_match); !problem.empty()) return complain(problem);
  for (auto const& file : files) std::fprintf(stderr, "written: %s\n", shown(file.path).c_str());
  return done;
}

}  // namespace coalesce
