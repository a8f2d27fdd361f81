#include "report.hpp"

#include "edits.hpp"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace coalesce {

std::string shown(std::string const& path) {
  std::error_code ignored;
  auto const here = std::filesystem::current_path(ignored).string() + "/";
  return path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

namespace {

char const* name_of(severity s) {
  static constexpr char const* names[] = {"remark", "note", "warning", "error"};
  return names[static_cast<int>(s)];
}

std::string line_of(program const& p, place const& at) {
  auto const known = p.texts.find(at.file);
  std::string read;
  if (known == p.texts.end() && !read_file(at.file, read)) return "";
  std::string const& text = known == p.texts.end() ? read : known->second;
  std::size_t begin = 0;
  for (unsigned n = 1; n < at.line; ++n) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

void print(std::string& out, program const& p, place const& at, std::string const& head) {
  if (at.file.empty()) {
    out += head + "\n";
    return;
  }
  out += shown(at.file);
  if (at.line == 0) {
    out += ": " + head + "\n";
    return;
  }
  out += ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + head + "\n";
  std::string const line = line_of(p, at);
  if (line.empty()) return;
  std::string const number = std::to_string(at.line);
  std::string caret;
  for (std::size_t i = 0; i + 1 < at.column && i < line.size(); ++i) caret += line[i] == '\t' ? '\t' : ' ';
  out += std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number + " | " + line + "\n      | " + caret + "^\n";
}

std::vector<diagnostic const*> in_order(program const& p) {
  std::vector<diagnostic const*> all;
  for (auto const& d : p.diagnostics) all.push_back(&d);
  std::stable_sort(all.begin(), all.end(), [](auto const* a, auto const* b) {
    return std::tie(a->at.file, a->at.line, a->at.column) < std::tie(b->at.file, b->at.line, b->at.column);
  });
  return all;
}

llvm::json::Object json_of(place const& at) {
  return llvm::json::Object{
      {"file", shown(at.file)}, {"line", static_cast<std::int64_t>(at.line)}, {"column", static_cast<std::int64_t>(at.column)}};
}

}  // namespace

std::string diagnostics_text(program const& p, bool quiet) {
  std::string out;
  for (auto const* d : in_order(p)) {
    if (quiet && d->level < severity::warning) continue;
    print(out, p, d->at, std::string{name_of(d->level)} + ": [" + d->id + "] " + d->text);
    for (auto const& hint : d->hints) print(out, p, hint.at, "note: " + hint.text);
  }
  return out;
}

std::string summary(decisions const& decided) {
  unsigned counts[4] = {};
  for (auto const& d : decided.sites) ++counts[static_cast<int>(d.is)];
  return std::to_string(decided.sites.size()) + (decided.sites.size() == 1 ? " allocation: " : " allocations: ") +
         std::to_string(counts[0]) + " collective, " + std::to_string(counts[1]) + " as the caller says, " + std::to_string(counts[2]) +
         " not coalesced, " + std::to_string(counts[3]) + " left as they are; " + std::to_string(decided.with_parameter.size()) +
         (decided.with_parameter.size() == 1 ? " function gets a parameter" : " functions get a parameter");
}

std::string json(program const& p, options const& asked, decisions const& decided) {
  llvm::json::Array sites, calls, functions, said;
  int id = 0;
  for (auto const& d : decided.sites) {
    auto one = json_of(d.what.at);
    one["id"] = id++;
    one["function"] = d.function;
    one["callee"] = d.what.callee;
    one["size"] = d.what.size_text;
    one["decision"] = name_of(d.is);
    one["rule"] = d.rule;
    one["reached_together_in"] = coalesce::name_of(d.what.control.same_in);
    one["size_same_in"] = coalesce::name_of(d.what.size.same_in);
    sites.push_back(std::move(one));
  }
  for (auto const& d : decided.calls) {
    auto one = json_of(d.what.at);
    one["callee"] = d.what.callee;
    one["decision"] = name_of(d.is);
    calls.push_back(std::move(one));
  }
  for (auto const* unit : decided.with_parameter) {
    auto one = json_of(unit->at);
    one["name"] = unit->name;
    one["parameter"] = unit->parameter_name;
    functions.push_back(std::move(one));
  }
  for (auto const* d : in_order(p)) {
    auto one = json_of(d->at);
    one["severity"] = name_of(d->level);
    one["id"] = d->id;
    one["text"] = d->text;
    llvm::json::Array hints;
    for (auto const& hint : d->hints) {
      auto h = json_of(hint.at);
      h["text"] = hint.text;
      hints.push_back(std::move(h));
    }
    one["hints"] = std::move(hints);
    said.push_back(std::move(one));
  }
  llvm::json::Object const all{{"analysis", asked.pattern ? "pattern" : "flow"},
                               {"level", coalesce::name_of(asked.level)},
                               {"census", asked.census},
                               {"sites", std::move(sites)},
                               {"calls", std::move(calls)},
                               {"functions", std::move(functions)},
                               {"diagnostics", std::move(said)}};
  std::string text;
  llvm::raw_string_ostream out{text};
  out << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{all})) << "\n";
  return text;
}

bool has_errors(program const& p) {
  return std::any_of(p.diagnostics.begin(), p.diagnostics.end(), [](auto const& d) { return d.level == severity::error; });
}

bool has_error_of(program const& p, std::string const& id) {
  return std::any_of(p.diagnostics.begin(), p.diagnostics.end(), [&](auto const& d) { return d.level == severity::error && d.id == id; });
}

}  // namespace coalesce
