#include "frontend.hpp"

#include "edits.hpp"

#include <clang/AST/ASTDiagnostic.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/DiagnosticSema.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/ASTUnit.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Lex/Lexer.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Tooling/JSONCompilationDatabase.h>
#include <clang/Tooling/Tooling.h>

#include <llvm/Support/CommandLine.h>
#include <llvm/Support/StringSaver.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace coalesce {

namespace {

namespace fs = std::filesystem;

class error_collector : public clang::DiagnosticConsumer {
 public:
  explicit error_collector(std::vector<diagnostic>& to) : to_{to} {}
  void BeginSourceFile(clang::LangOptions const& language, clang::Preprocessor const* preprocessor) override {
    clang::DiagnosticConsumer::BeginSourceFile(language, preprocessor);
    if (preprocessor == nullptr || !language.CUDA) return;
    // nvcc accepts registers in assembly such as %laneid.
    auto& how = preprocessor->getDiagnostics();
    how.setSeverity(clang::diag::err_asm_invalid_escape, clang::diag::Severity::Ignored, {});
    // nvcc also accepts kernels that launch kernels, and objects with constructors in shared memory. Clang rejects both, and its syntax
    // tree lacks the rejected expression.
    how.setSeverity(clang::diag::err_ref_bad_target, clang::diag::Severity::Remark, {});
    how.setSeverity(clang::diag::err_shared_var_init, clang::diag::Severity::Remark, {});
  }
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, clang::Diagnostic const& said) override {
    clang::DiagnosticConsumer::HandleDiagnostic(level, said);
    bool const hole = said.getID() == clang::diag::err_ref_bad_target || said.getID() == clang::diag::err_shared_var_init;
    if (level < clang::DiagnosticsEngine::Error && !hole) return;
    llvm::SmallString<128> text;
    said.FormatDiagnostic(text);
    place at;
    if (said.hasSourceManager() && said.getLocation().isValid()) at = place_of(said.getSourceManager(), said.getLocation());
    to_.push_back({hole ? severity::note : severity::error, hole ? "E7" : "E1", text.str().str(), at, {}});
  }

 private:
  std::vector<diagnostic>& to_;
};

// The command line with the contents of each options file in place of its name. CMake's Makefile generator writes such files. `missing`
// becomes the path of an options file that cannot be read.
std::vector<std::string> with_option_files(std::vector<std::string> const& command, std::string const& folder, std::string& missing) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string file;
    for (std::string const option : {"--options-file", "-optf"}) {
      if (command[i] == option && i + 1 < command.size()) file = command[++i];
      if (command[i].rfind(option + "=", 0) == 0) file = command[i].substr(option.size() + 1);
    }
    if (file.empty()) {
      words.push_back(command[i]);
      continue;
    }
    std::string text;
    if (!read_file(file = (fs::path{folder} / file).string(), text)) missing = file;
    llvm::BumpPtrAllocator memory;
    llvm::StringSaver saver{memory};
    llvm::SmallVector<char const*> inside;
    llvm::cl::TokenizeGNUCommandLine(text, saver, inside);
    words.insert(words.end(), inside.begin(), inside.end());
  }
  return words;
}

// The options of an nvcc or clang command line that matter for parsing.
std::vector<std::string> reading_options(std::vector<std::string> const& command, std::string const& folder) {
  std::vector<std::string> kept;
  auto const absolute = [&](std::string const& path) { return fs::path{path}.is_absolute() ? path : (fs::path{folder} / path).string(); };
  for (std::size_t i = 1; i < command.size(); ++i) {
    std::string const& word = command[i];
    auto const value_of = [&](std::string const& option) -> std::string {
      if (word == option) return i + 1 < command.size() ? command[++i] : "";
      std::string const rest = word.substr(option.size());
      return rest.rfind('=', 0) == 0 ? rest.substr(1) : rest;
    };
    bool done = false;
    for (std::string const option : {"-isystem", "-iquote", "-include", "--include-path", "-I"}) {
      if (done || word.rfind(option, 0) != 0) continue;
      kept.push_back(option == "--include-path" ? "-I" : option);
      kept.push_back(absolute(value_of(option)));
      done = true;
    }
    for (std::string const option : {"-D", "-U"}) {
      if (done || word.rfind(option, 0) != 0) continue;
      kept.push_back(option + value_of(option));
      done = true;
    }
    for (std::string const option : {"--std", "-std"}) {
      if (done || word.rfind(option, 0) != 0) continue;
      kept.push_back("-std=" + value_of(option));
      done = true;
    }
    if (auto const sm = word.find("sm_"); !done && sm != std::string::npos && word[0] == '-') {
      kept.push_back("--cuda-gpu-arch=" + word.substr(sm, word.find_first_not_of("0123456789", sm + 3) - sm));
    }
  }
  return kept;
}

// The path and the text of Clang's header with CUDA's functions. The text declares `malloc` and `free` in `std` as the global ones, because
// Clang's own second pair makes calls ambiguous in a program that uses the namespace `std`. Both are empty if the header is not as
// expected.
std::pair<std::string, std::string> runtime_wrapper() {
  std::string const path = COALESCE_RESOURCE_DIR "/include/__clang_cuda_runtime_wrapper.h";
  std::string text;
  if (!read_file(path, text)) return {};
  auto const begin = text.find("__device__ static inline void *malloc(size_t");
  auto const before = text.rfind("namespace std {", begin);
  auto const end = text.find("} // namespace std", before);
  if (begin == std::string::npos || before == std::string::npos || end == std::string::npos) return {};
  text.replace(before, end - before, "namespace std { using ::malloc; using ::free; ");
  return {path, text};
}

std::string toolkit_of(options const& asked) {
  if (asked.no_toolkit) return "";
  if (!asked.toolkit.empty()) return asked.toolkit;
  char const* const named = std::getenv("CUDA_PATH");
  for (std::string const folder : {named == nullptr ? "" : named, "/usr/local/cuda"}) {
    if (!folder.empty() && fs::exists(folder + "/include/cuda_runtime.h") && fs::exists(folder + "/nvvm/libdevice")) return folder;
  }
  return "";
}

bool has_option(std::vector<std::string> const& words, std::string const& beginning) {
  for (auto const& word : words) {
    if (word.rfind(beginning, 0) == 0) return true;
  }
  return false;
}

// nvcc accepts `__shared__` before or after `alignas(...)`, and Clang only after it. Swaps the two; all other offsets in the text stay.
std::string with_shared_behind(std::string text) {
  constexpr std::string_view shared = "__shared__", aligned = "alignas";
  for (auto at = text.find(shared); at != std::string::npos; at = text.find(shared, at + 1)) {
    auto const begin = text.find_first_not_of(" \t", at + shared.size());
    if (begin == std::string::npos || text.compare(begin, aligned.size(), aligned) != 0) continue;
    auto end = text.find_first_not_of(" \t", begin + aligned.size());
    if (end == std::string::npos || text[end] != '(') continue;
    int depth = 0;
    do {
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
      ++end;
    } while (depth > 0 && end < text.size());
    auto const blank = text.substr(at + shared.size(), begin - at - shared.size());
    text.replace(at, end - at, text.substr(begin, end - begin) + blank + std::string{shared});
  }
  return text;
}

// nvcc accepts operands of assembly without a comma between them, and Clang does not. Replaces the first blank between two operands by a
// comma.
std::string with_commas_in_assembly(std::string text) {
  for (auto at = text.find("asm"); at != std::string::npos; at = text.find("asm", at + 3)) {
    bool in_text = false;
    int depth = 0;
    std::size_t last = 0;  // the end of an operand, if nothing but blanks follows it
    for (auto i = text.find('(', at); i < text.size() && (in_text || text[i] != ';'); ++i) {
      char const c = text[i];
      if (in_text) {
        i += c == '\\' ? 1 : 0;
        in_text = c != '"';
      } else if (c == '"') {
        if (last != 0 && i > last + 1) text[last + 1] = ',';
        in_text = true;
        last = 0;
      } else if (c == '(' || c == ')') {
        depth += c == '(' ? 1 : -1;
        last = c == ')' && depth == 1 ? i : 0;
      } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        last = 0;
      }
    }
  }
  return text;
}

std::string as_clang_reads(std::string const& text, language in) {
  return in == language::cuda ? with_commas_in_assembly(with_shared_behind(text)) : text;
}

// The arguments with which Clang parses `file`. `missing` becomes the path of an options file that cannot be read.
std::vector<std::string> arguments_for(options const& asked, std::string const& file, language in, std::string& missing) {
  std::vector<std::string> words{"-fsyntax-only", "-w", "-ferror-limit=20", "-resource-dir", COALESCE_RESOURCE_DIR};
  if (in == language::c) {
    // GCC 12 only warns about these mistakes, so they are no errors here. With __NO_CTYPE, isdigit and similar names are functions; the
    // macros in their place would read tables of the C library.
    words.insert(words.end(), {"-x", "c", "-I", COALESCE_STUBS "/mpi", "-D__NO_CTYPE"});
    for (auto const* let : {"implicit-function-declaration", "implicit-int", "int-conversion", "incompatible-function-pointer-types",
                            "return-mismatch", "return-type"})
      words.push_back(std::string{"-Wno-error="} + let);
  } else {
    words.insert(words.end(), {"-x", "cuda", "--cuda-device-only", "-Wno-unknown-cuda-version", "-I", COALESCE_STUBS});
  }
  std::string const toolkit = in == language::cuda ? toolkit_of(asked) : "";
  if (in == language::cuda_of_c) {
    words.insert(words.end(), {"-nocudainc", "-nocudalib", "-nostdinc++", "-include", COALESCE_STUBS "/mpi_stub.hpp"});
  } else if (in == language::cuda && toolkit.empty()) {
    words.insert(words.end(),
                 {"-nocudainc", "-nocudalib", "-include", COALESCE_STUBS "/cuda_stub.hpp", "-isystem", COALESCE_STUBS "/no_toolkit"});
  } else if (in == language::cuda) {
    // CUDA 13 no longer has the texture header that Clang 19 includes, and cuRAND's headers may be missing. Empty headers suffice.
    words.insert(words.end(), {"--cuda-path=" + toolkit, "-isystem", COALESCE_STUBS "/toolkit", "-isystem", toolkit + "/include/cccl",
                               "-include", COALESCE_STUBS "/toolkit_more.hpp", "-idirafter", COALESCE_STUBS "/compiler"});
  }
  std::vector<std::string> own = asked.compiler;
  if (!asked.database.empty()) {
    std::string problem;
    auto const database = clang::tooling::JSONCompilationDatabase::loadFromFile(asked.database + "/compile_commands.json", problem,
                                                                                clang::tooling::JSONCommandLineSyntax::AutoDetect);
    if (database != nullptr) {
      for (auto const& command : database->getCompileCommands(file)) {
        auto const kept = reading_options(with_option_files(command.CommandLine, command.Directory, missing), command.Directory);
        own.insert(own.begin(), kept.begin(), kept.end());
        break;
      }
    }
  }
  auto const is_standard = [](std::string const& word) { return word.rfind("-std=", 0) == 0; };
  if (in == language::cuda_of_c) own.erase(std::remove_if(own.begin(), own.end(), is_standard), own.end());
  if (!has_option(own, "-std=")) words.push_back(in == language::c ? "-std=gnu17" : "-std=c++20");
  if (in != language::c && !has_option(own, "--cuda-gpu-arch=")) words.push_back("--cuda-gpu-arch=sm_90");
  words.insert(words.end(), own.begin(), own.end());
  return words;
}

diagnostic without_options(std::string const& missing, std::string const& file) {
  return {severity::error,
          "E1",
          "compile_commands.json names the file of options " + missing + ", which is not there: configure the build again",
          {file, 0, 1, 1},
          {}};
}

}  // namespace

std::string path_of(std::string const& name) {
  std::error_code ignored;
  auto const path = fs::weakly_canonical(name, ignored);
  return ignored ? name : path.string();
}

bool includes(clang::ASTUnit const& unit, std::string const& path) {
  auto const& sources = unit.getSourceManager();
  for (auto it = sources.fileinfo_begin(); it != sources.fileinfo_end(); ++it) {
    auto const id = sources.translateFile(it->first);
    if (id.isValid() && id != sources.getMainFileID() && path_of(it->first.getName().str()) == path) return true;
  }
  return false;
}

bool is_stub(std::string const& path) { return path.rfind(COALESCE_STUBS, 0) == 0; }

parsed parse(options const& asked, std::string const& file, std::map<std::string, std::string> const& texts, language in) {
  parsed result;
  error_collector errors{result.errors};
  for (auto const& [path, text] : texts) {
    if (path != file) result.texts.emplace_back(path, as_clang_reads(text, in));
  }
  if (auto const wrapper = runtime_wrapper(); in == language::cuda && !wrapper.first.empty()) result.texts.push_back(wrapper);
  auto const own = texts.find(file);
  std::string text;
  if (own == texts.end()) (void)read_file(file, text);
  std::string missing;
  auto const words = arguments_for(asked, file, in, missing);
  if (!missing.empty()) result.errors.push_back(without_options(missing, file));
  result.ast = clang::tooling::buildASTFromCodeWithArgs(as_clang_reads(own == texts.end() ? text : own->second, in), words, file,
                                                        "gpuheap-coalesce", std::make_shared<clang::PCHContainerOperations>(),
                                                        clang::tooling::getClangStripDependencyFileAdjuster(), result.texts, &errors);
  if (result.ast == nullptr && result.errors.empty())
    result.errors.push_back({severity::error, "E1", "Clang cannot read this file", {file, 0, 1, 1}, {}});
  return result;
}

std::vector<diagnostic> run_on(options const& asked, std::string const& file, std::map<std::string, std::string> const& texts, language in,
                               std::unique_ptr<clang::FrontendAction> action) {
  std::vector<diagnostic> found;
  error_collector errors{found};
  auto const memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  auto const wrapper = runtime_wrapper();
  if (in == language::cuda && !wrapper.first.empty()) memory->addFile(wrapper.first, 0, llvm::MemoryBuffer::getMemBuffer(wrapper.second));
  std::vector<std::string> read;  // the texts of the files in `memory`, which does not copy them
  read.reserve(texts.size());
  for (auto const& [path, text] : texts) {
    read.push_back(as_clang_reads(text, in));
    memory->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(read.back()));
  }
  auto const files = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(llvm::vfs::getRealFileSystem());
  files->pushOverlay(memory);
  auto const manager = llvm::makeIntrusiveRefCnt<clang::FileManager>(clang::FileSystemOptions{}, files);
  std::string missing;  // parse() has reported it
  auto words = arguments_for(asked, file, in, missing);
  words.insert(words.begin(), "gpuheap-coalesce");
  words.push_back(file);
  clang::tooling::ToolInvocation invocation{words, std::move(action), manager.get()};
  invocation.setDiagnosticConsumer(&errors);
  (void)invocation.run();
  return found;
}

place place_of(clang::SourceManager const& sources, clang::SourceLocation at) {
  at = sources.getExpansionLoc(at);
  auto const [id, offset] = sources.getDecomposedLoc(at);
  auto const entry = sources.getFileEntryRefForID(id);
  if (!entry) return {};
  return {path_of(entry->getName().str()), offset, sources.getLineNumber(id, offset), sources.getColumnNumber(id, offset)};
}

namespace {

stretch in_file(clang::SourceManager const& sources, program const& p, clang::SourceLocation begin, unsigned length) {
  place const at = place_of(sources, begin);
  return {at.file, at.offset, length, p.editable.count(at.file) != 0};
}

}  // namespace

stretch stretch_of(clang::ASTContext const& context, program const& p, clang::SourceRange range) {
  auto const& sources = context.getSourceManager();
  auto const found = clang::Lexer::makeFileCharRange(clang::CharSourceRange::getTokenRange(range), sources, context.getLangOpts());
  if (found.isInvalid()) return {};
  return in_file(sources, p, found.getBegin(), sources.getFileOffset(found.getEnd()) - sources.getFileOffset(found.getBegin()));
}

stretch spelled_at(clang::ASTContext const& context, program const& p, clang::SourceLocation at) {
  auto const& sources = context.getSourceManager();
  auto const spelling = sources.getSpellingLoc(at);
  if (spelling.isInvalid() || !sources.getFileEntryRefForID(sources.getFileID(spelling))) return {};
  return in_file(sources, p, spelling, clang::Lexer::MeasureTokenLength(spelling, sources, context.getLangOpts()));
}

}  // namespace coalesce
