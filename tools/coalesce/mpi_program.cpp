#include "mpi_program.hpp"

#include "pipeline.hpp"
#include "report.hpp"
#include "translate.hpp"
#include "translator.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

namespace coalesce {

namespace {

namespace fs = std::filesystem;

constexpr char const* first_words = "// Made of ";  // the begin of the first line of each file that this command writes

// A message about the translated program, with the names of the C program.
std::string in_c(std::string text) {
  for (std::string const begin : {"gpuheap::mpi::own<", "gpuheap::mpi::c::", "gpuheap::coalesced::"}) {
    for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
      auto const end = begin.back() == '<' ? text.find(">().", at) + 4 : at + begin.size();
      text.erase(at, end - at);
    }
  }
  return text;
}

// Translates places of the CUDA program to those of the C files that it was made from.
class way_back {
 public:
  way_back(translation const& made, program const& c) : made_{made}, c_{c} {}
  void operator()(place& at) const {
    auto const found = made_.c_file_of.find(at.file);
    if (found == made_.c_file_of.end()) return;
    at.file = found->second;
    if (at.line == 0) return;
    auto const& text = c_.texts.at(at.file);
    at.offset = std::min(made_.changes.origin(at.file, at.offset), static_cast<unsigned>(text.size()));
    at.line = 1 + static_cast<unsigned>(std::count(text.begin(), text.begin() + at.offset, '\n'));
    auto const line_end = at.offset == 0 ? std::string::npos : text.rfind('\n', at.offset - 1);
    at.column = at.offset - (line_end == std::string::npos ? 0 : static_cast<unsigned>(line_end) + 1) + 1;
  }
  void operator()(diagnostic& d) const {
    (*this)(d.at);
    d.text = in_c(d.text);
    for (auto& hint : d.hints) {
      (*this)(hint.at);
      hint.text = in_c(hint.text);
    }
  }

 private:
  translation const& made_;
  program const& c_;
};

// Rewords Clang's errors about names of MPI that the device MPI does not have.
void name_what_is_outside_the_subset(program& c) {
  for (auto& d : c.diagnostics) {
    auto const begin = d.text.find("'MPI_");
    if (d.id != "E1" || begin == std::string::npos) continue;
    std::string const name = d.text.substr(begin + 1, d.text.find('\'', begin + 1) - begin - 1);
    if (name.find(' ') != std::string::npos) continue;  // a conversion between two types
    bool const unknown = d.text.find("undeclared") != std::string::npos || d.text.find("unknown type") != std::string::npos;
    if (!unknown) continue;
    d.id = "M2";
    d.text = outside_of_device_mpi(name);
  }
}

// For each line of the final text, the place in the C text from which its beginning comes.
std::vector<unsigned> origins(translation const& made, edits const& coalesced, std::string const& cuda, std::string const& c_file,
                              std::string const& text) {
  std::vector<unsigned> places;
  for (std::size_t at = 0; at < text.size();) {
    places.push_back(made.changes.origin(c_file, coalesced.origin(cuda, static_cast<unsigned>(at))));
    auto const end = text.find('\n', at);
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return places;
}

std::string headed(std::string const& c_file, std::string const& text) {
  return first_words + fs::path{c_file}.filename().string() + " by gpuheap coalesce --mpi\n" + text;
}

// The places of the files under --output.
output_places places_of(options const& asked, translation const& made, program const& c) {
  std::set<std::string> files;
  for (auto const& [cuda, text] : made.texts) files.insert(cuda);
  auto places = places_under(asked.output, files, c.editable);
  for (auto const& [cuda, to] : places.of) {
    std::string there;
    if (read_file(to, there) && there.rfind(first_words, 0) != 0)
      places.problem = to + " exists, and this command did not write it: remove it, or choose another folder for --output";
  }
  return places;
}

std::vector<rewritten_file> outputs(output_places const& places, translation const& made, edits const& coalesced) {
  std::vector<rewritten_file> files;
  for (auto const& [cuda, text] : made.texts)
    files.push_back({places.of.at(cuda), "", headed(made.c_file_of.at(cuda), coalesced.apply(cuda, text))});
  return files;
}

}  // namespace

int run_mpi(options const& asked, program& c, std::vector<std::string> const& sources) {
  for (auto const& source : sources) {
    if (fs::path{source}.extension() != ".c")
      return complain("--mpi takes C programs, and '" + shown(source) + "' is no .c file: CUDA files need no --mpi");
  }
  auto const made = translate(asked, c, sources);
  name_what_is_outside_the_subset(c);
  if (has_error_of(c, "E1")) return refuse(asked, c, cannot_parse);
  if (has_errors(c)) return refuse(asked, c, "errors: nothing is written");

  program cuda;
  for (auto const& [path, text] : made.texts) {
    cuda.editable.insert(path);
    cuda.texts.emplace(path, text);
  }
  options how = asked;
  how.init = false;
  how.roots.insert(made.root);
  output_places places;
  if (!asked.output.empty()) places = places_of(asked, made, c);
  if (!places.problem.empty()) return complain(places.problem);
  auto [decided, changes] = coalesce_program(how, cuda, made.sources, made.texts, language::cuda_of_c);

  way_back const back{made, c};
  for (auto& d : cuda.diagnostics) {
    if (d.id == "E1" || d.id == "E4") {
      d.id = "M5";
      d.text = "as C++ this does not compile: " + d.text + ". Write it so that both languages accept it";
    }
    back(d);
    c.diagnostics.push_back(d);
  }
  if (has_errors(c)) return refuse(asked, c, "errors: nothing is written");
  for (auto& d : decided.sites) {
    back(d.what.at);
    d.what.size_text = in_c(d.what.size_text);
  }
  for (auto& d : decided.calls) back(d.what.at);
  show(asked, c, decided);
  if (!asked.output.empty() && !asked.dry) return write_files(outputs(places, made, changes), false);
  if (asked.json) return done;
  for (auto const& [path, text] : made.texts) {
    auto const& c_file = made.c_file_of.at(path);
    auto const after = changes.apply(path, text);
    std::fputs(diff_of(c.texts.at(c_file), after, origins(made, changes, path, c_file, after), shown(c_file), shown(path)).c_str(), stdout);
  }
  return done;
}

}  // namespace coalesce
