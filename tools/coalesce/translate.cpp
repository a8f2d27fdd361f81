#include "translate.hpp"

#include "c_library.hpp"
#include "frontend.hpp"
#include "report.hpp"
#include "rewrite.hpp"
#include "translator.hpp"

#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/ASTUnit.h>
#include <clang/Lex/Preprocessor.h>

#include <algorithm>
#include <filesystem>

namespace coalesce {

void translator::tell(severity level, char const* id, place const& at, std::string const& text) {
  for (auto const& other : found.diagnostics) {
    if (other.id == id && other.at.file == at.file && other.at.offset == at.offset && other.text == text) return;
  }
  found.diagnostics.push_back({level, id, text, at, {}});
}

bool translator::is_users(clang::ASTContext const& context, clang::SourceLocation where) const {
  auto const& sources = context.getSourceManager();
  auto const expanded = sources.getExpansionLoc(where);
  return where.isValid() && !sources.isInSystemHeader(expanded) && sources.getFileEntryRefForID(sources.getFileID(expanded)) &&
         !is_stub(at(context, where).file);
}

place translator::at(clang::ASTContext const& context, clang::SourceLocation where) const {
  return place_of(context.getSourceManager(), where);
}

std::string translator::text_at(std::string const& file, unsigned offset, unsigned length) const {
  return found.texts.at(file).substr(offset, length);
}

bool translator::replace_word(clang::ASTContext const& context, clang::SourceLocation where, std::string const& text) {
  auto const word = spelled_at(context, found, where);
  if (word.editable) {
    replaced.insert({word.file, word.offset});
    changes.replace(word, text);
    return true;
  }
  if (word.file.empty()) {
    error("M5", at(context, where), "a macro puts this name together: write it out");
  } else {
    error("E3", at(context, where), "this stands in " + word.file + ", which is not among the files given: name it too");
  }
  return false;
}

bool translator::replace_macro(clang::ASTContext const& context, clang::SourceLocation where, std::string const& text) {
  auto const& sources = context.getSourceManager();
  // Ends: each pass goes from a macro to the place that uses it, at last to a place in no macro.
  while (where.isMacroID() && !is_users(context, sources.getSpellingLoc(where))) where = sources.getImmediateMacroCallerLoc(where);
  return replace_word(context, where, text);
}

bool translator::insert_before(clang::ASTContext const& context, clang::SourceLocation where, std::string const& text, char const* what) {
  auto const spot = at(context, where);
  if (where.isMacroID()) {
    error("M5", spot, std::string{"a macro writes this "} + what + ": write it out");
  } else if (found.editable.count(spot.file) == 0) {
    error("E3", spot, std::string{"this "} + what + " stands in " + spot.file + ", which is not among the files given: name it too");
  } else {
    changes.insert({spot.file, spot.offset, 0, true}, text);
    return true;
  }
  return false;
}

std::string translator::fresh(std::string name) {
  while (!words.insert(name).second) name += '_';
  return name;
}

namespace {

bool is_source(std::vector<std::string> const& sources, std::string const& path) {
  return std::find(sources.begin(), sources.end(), path) != sources.end();
}

// Reads the headers of the program that the command line does not name. Those that change are written, too.
void find_headers(translator& t, clang::ASTContext& context) {
  auto& sources = context.getSourceManager();
  for (auto entry = sources.fileinfo_begin(); entry != sources.fileinfo_end(); ++entry) {
    auto const id = sources.translateFile(entry->first);
    if (id.isInvalid() || !t.is_users(context, sources.getLocForStartOfFile(id))) continue;
    auto const path = path_of(entry->first.getName().str());
    std::string text;
    if (t.found.editable.count(path) != 0 || !read_file(path, text)) continue;
    t.tokens[path] = tokens_of(text);
    for (auto const& token : t.tokens[path]) t.words.insert(token.text);
    t.found.texts[path] = text;
    t.found.editable.insert(path);
    t.headers.insert(path);
  }
}

// Finds the names of the C program that C++ or CUDA has, too, except names that are macros of C.
void find_names_that_are_there(translator& t, clang::ASTUnit& unit) {
  auto& preprocessor = unit.getPreprocessor();
  for (auto const* name : {"bool", "true", "false"}) {
    if (t.words.count(name) != 0 && !preprocessor.isMacroDefined(name) && unit.getLangOpts().C23 == 0) t.there.insert(name);
  }
  for (auto const* d : unit.getASTContext().getTranslationUnitDecl()->decls()) {
    auto const* f = clang::dyn_cast<clang::FunctionDecl>(d);
    if (f == nullptr || f->isImplicit() || !f->getDeclName().isIdentifier() || !t.is_users(unit.getASTContext(), f->getLocation()))
      continue;
    auto const name = f->getNameAsString();
    bool const own_of_library = t.defined.count(name) != 0 && !f->isMain() && availability_of(name) != availability::missing;
    if (is_of_cuda(name) || own_of_library) t.there.insert(name);
  }
}

void rename_words(translator& t) {
  for (auto const& [file, tokens] : t.tokens) {
    for (auto const& token : tokens) {
      auto const renamed = word_in_cpp(token.text, t.words, t.there);
      if (renamed == token.text || t.replaced.count({file, token.offset}) != 0) continue;
      auto const length = static_cast<unsigned>(token.text.size());
      auto const blank = renamed.empty() ? 1u : 0u;
      t.changes.replace({file, token.offset, length + blank, true}, renamed);
    }
  }
}

// Includes the library at the head of each file, because it defines the mark of device functions.
void include_library(translator& t) {
  constexpr char const* library = "<gpuheap/mpi/program.hpp>";
  for (auto const& file : t.found.editable) {
    auto const& text = t.found.texts.at(file);
    auto const includes = includes_of_mpi(text);
    for (auto const& one : includes) t.changes.replace({file, one.offset, one.length, true}, library);
    // A header that the command line does not name needs no include: the program's sources include the library before the header.
    if (t.headers.count(file) != 0) continue;
    auto const own_header = text.find("#include \"");
    bool const is_late = own_header < (includes.empty() ? offset_for_include(text) : includes.front().offset);
    unsigned const begin = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0;  // behind a byte order mark
    if (includes.empty() || is_late)
      t.changes.insert({file, is_late ? begin : offset_for_include(text), 0, true}, std::string{"#include "} + library + "\n");
  }
}

void check_functions(translator& t) {
  for (auto const& use : t.used) {
    if (t.defined.count(use.name) != 0) continue;
    if (use.of_system) {
      t.error("M3", use.at, "device code has no `" + use.name + "`: " + instead_of(use.name));
    } else {
      t.error("M3", use.at, "the definition of `" + use.name + "` is in none of the files given: name its file too");
    }
  }
}

void check_main(translator& t, std::vector<std::string> const& sources) {
  place const nowhere{sources.front(), 0, 0, 0};
  if (t.mains.empty()) return t.error("M1", nowhere, "no main in the files given: name the file that has it");
  if (t.mains.size() > 1)
    return t.error("M1", {t.mains[1].file, 0, 0, 0}, "a second main: the files given are not one program. Run once for each program");
  if (!t.calls_init)
    t.error("M1", {t.mains[0].file, 0, 0, 0},
            "nothing in these files calls MPI_Init: this is no program of MPI. --mpi is for those; CUDA programs need no option");
}

// Finds the chain of calls from a function that keeps the most bytes on the stack. A recursive call adds nothing, because its depth is not
// known.
class deepest_stack {
 public:
  explicit deepest_stack(std::map<std::string, translator::frame> const& frames) : frames_{frames} {}

  struct path {
    std::uint64_t bytes = 0;
    std::vector<std::string> functions;
  };
  path const& from(std::string const& name) {
    if (auto const known = known_.find(name); known != known_.end()) return known->second;
    known_[name];  // zero bytes, for a recursive call
    path most;
    auto const frame = frames_.find(name);
    if (frame == frames_.end()) return known_[name];
    for (auto const& callee : frame->second.calls) {
      auto const& deeper = from(callee);
      if (deeper.bytes > most.bytes) most = deeper;
    }
    most.bytes += frame->second.bytes;
    most.functions.insert(most.functions.begin(), name.substr(0, name.find(' ')));
    return known_[name] = most;
  }

 private:
  std::map<std::string, translator::frame> const& frames_;
  std::map<std::string, path> known_;
};

void check_stack(translator& t) {
  auto const main = t.frames.find("main");
  if (main == t.frames.end() || has_errors(t.found))
    return;  // an error has been reported, for one function's variables or for an unknown callee
  auto const deepest = deepest_stack{t.frames}.from("main");
  if (deepest.bytes <= stack_limit) return;
  std::string calls;
  for (auto const& name : deepest.functions) calls += (calls.empty() ? "`" : ", `") + name + "`";
  t.error("M5", main->second.at,
          "the local variables of the functions that call one another, " + calls + ", take " + std::to_string(deepest.bytes) +
              " bytes together, and the stack of a GPU thread has " + std::to_string(stack_limit) + " at most: use malloc and free");
}

// The files and variables that the host must read before the ranks begin, as the last argument of run_main().
std::string what_is_read(translator const& t) {
  std::vector<std::string> parts;
  if (t.reads_input) parts.emplace_back(".input = true");
  if (t.reads_files) parts.emplace_back(".files = true");
  if (t.reads_environment) parts.emplace_back(".environment = true");
  if (!t.read_by_name.empty()) {
    std::string names;
    for (auto const& name : t.read_by_name) names += (names.empty() ? "" : ", ") + name;
    parts.push_back(".named = {" + names + "}");
  }
  std::string all;
  for (auto const& part : parts) all += (all.empty() ? "" : ", ") + part;
  return all.empty() ? "" : ", {" + all + "}";
}

// Appends the structs of the ranks' variables to each source, and the host's main to the source that has main.
void add_ends(translator& t, options const& asked, std::vector<std::string> const& sources, std::vector<unit_variables> const& variables) {
  if (t.mains.size() != 1) return;
  std::string const start = "start_variables_of_";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto const& own = variables[i];
    std::string text;
    if (!own.structs.empty()) {
      std::string const name = "variables_of_" + own.stem;
      text += "\n// The variables that each rank has for itself in this file.\nusing " + name + " = gpuheap::mpi::variables<";
      for (std::size_t k = 0; k < own.structs.size(); ++k) text += (k == 0 ? "" : ", ") + own.structs[k];
      text += ">;\n[[maybe_unused]] static bool const " + name + "_known = " + name + "::known();\n";
      text += "GPUHEAP_FN void " + start + own.stem + "() { " + name + "::start(); }\n";
    }
    if (sources[i] == t.mains[0].file) {
      std::string const program = t.fresh("rank_program");
      std::string const words = t.mains[0].own_words ? "char**" : "gpuheap::mpi::arguments";
      bool const arguments = t.mains[0].arguments != 0;
      text += "\n// The ranks are threads of one kernel.\n";
      for (std::size_t k = 0; k < sources.size(); ++k) {
        if (k != i && !variables[k].structs.empty()) text += "GPUHEAP_FN void " + start + variables[k].stem + "();\n";
      }
      text += "struct " + program + " {\n  GPUHEAP_FN int operator()(int" + (arguments ? " argc" : "") + ", " + words +
              (arguments ? " argv" : "") + ") const {\n";
      for (auto const& unit : variables) {
        if (!unit.structs.empty()) text += "    " + start + unit.stem + "();\n";
      }
      std::string const call = t.mains[0].arguments == 0 ? "()" : t.mains[0].arguments == 1 ? "(argc)" : "(argc, argv)";
      text += "    return " + t.root + call +
              ";\n  }\n};\n\nint main(int argc, char** argv) {\n  return gpuheap::mpi::run_main(argc, argv, " + program +
              "{}, [] { gpuheap::coalesced::init" + (asked.dynamic ? "_dynamic" : "") + "(" + asked.heap_bytes + "); }" + what_is_read(t) +
              ");\n}\n";
    }
    auto const& before = t.found.texts.at(sources[i]);
    if (!text.empty() && !before.empty() && before.back() != '\n') text = "\n" + text;
    if (!text.empty()) t.changes.insert({sources[i], static_cast<unsigned>(before.size()), 0, true}, text);
  }
}

std::string cuda_path(std::string const& c_path) { return std::filesystem::path{c_path}.replace_extension(".cu").string(); }

}  // namespace

translation translate(options const& asked, program& c, std::vector<std::string> const& sources) {
  translator t{asked, c};
  translation result;
  for (auto const& [file, text] : c.texts) {
    t.tokens[file] = tokens_of(text);
    for (auto const& token : t.tokens[file]) t.words.insert(token.text);
  }
  t.root = t.fresh("rank_main");
  std::vector<parsed> units;
  for (auto const& source : sources) {
    units.push_back(parse(asked, source, {}, language::c));
    c.diagnostics.insert(c.diagnostics.end(), units.back().errors.begin(), units.back().errors.end());
  }
  if (has_errors(c)) return result;

  for (auto& unit : units) find_headers(t, unit.ast->getASTContext());
  t.changes.keep_line_ends(c.texts);
  std::vector<unit_variables> variables;
  std::map<std::pair<std::string, unsigned>, std::string> in_headers;
  include_library(t);
  for (auto& unit : units) find_definitions(t, unit.ast->getASTContext());
  for (auto& unit : units) find_names_that_are_there(t, *unit.ast);
  for (std::size_t i = 0; i < units.size(); ++i)
    variables.push_back(find_variables(t, units[i].ast->getASTContext(), sources[i], in_headers));
  for (std::size_t i = 0; i < units.size(); ++i) read_functions(t, units[i].ast->getASTContext(), variables[i]);
  check_functions(t);
  check_main(t, sources);
  check_stack(t);
  rename_words(t);
  add_ends(t, asked, sources, variables);
  for (auto const& where : t.changes.conflicts()) {
    place at = where;
    auto const& text = c.texts.at(where.file);
    at.line = 1 + static_cast<unsigned>(std::count(text.begin(), text.begin() + where.offset, '\n'));
    auto const begin = where.offset == 0 ? std::string::npos : text.rfind('\n', where.offset - 1);
    at.column = where.offset - (begin == std::string::npos ? 0 : static_cast<unsigned>(begin) + 1) + 1;
    t.error("E2", at, "two changes meet here: write the line in a simpler way");
  }
  for (auto const& [file, text] : c.texts) {
    if (c.editable.count(file) == 0 || (t.headers.count(file) != 0 && t.changes.apply(file, text) == text)) continue;
    std::string const to = is_source(sources, file) ? cuda_path(file) : file;
    result.texts[to] = t.changes.apply(file, text);
    result.c_file_of[to] = file;
    if (is_source(sources, file)) result.sources.push_back(to);
  }
  result.changes = std::move(t.changes);
  result.root = t.root;
  return result;
}

}  // namespace coalesce
