// Parses CUDA files with Clang: the options that Clang needs, the errors that it finds, and places as files and lines.
#pragma once

#include "facts.hpp"
#include "options.hpp"

#include <clang/Basic/SourceLocation.h>
#include <clang/Basic/SourceManager.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace clang {
class ASTContext;
class ASTUnit;  // g++ takes ten seconds to read its header
class FrontendAction;
}  // namespace clang

namespace coalesce {

struct parsed {
  std::vector<std::pair<std::string, std::string>> texts;  // contents that replace those of files; the tree points into them
  std::unique_ptr<clang::ASTUnit> ast;                     // null if Clang could not even start
  std::vector<diagnostic> errors;
};

// The language to parse: CUDA for the device, C, or the CUDA code into which a C program with MPI was translated.
enum class language { cuda, c, cuda_of_c };

// Parses `file`. `texts` replace the contents of files with those paths.
[[nodiscard]] parsed parse(options const& asked, std::string const& file, std::map<std::string, std::string> const& texts,
                           language in = language::cuda);

// Parses `file` as parse() does, and runs `action`, which may generate code. Returns the errors.
[[nodiscard]] std::vector<diagnostic> run_on(options const& asked, std::string const& file, std::map<std::string, std::string> const& texts,
                                             language in, std::unique_ptr<clang::FrontendAction> action);

// The path under which a file is known here: absolute, without symbolic links.
[[nodiscard]] std::string path_of(std::string const& name);
// Whether the unit includes the file at `path`, other than as its main file.
[[nodiscard]] bool includes(clang::ASTUnit const& unit, std::string const& path);
// Whether `path` is one of the tool's own headers, which replace others.
[[nodiscard]] bool is_stub(std::string const& path);

// The place of a location in a file. For a location inside a macro's expansion, it is where the macro is used.
[[nodiscard]] place place_of(clang::SourceManager const& sources, clang::SourceLocation at);
// The text from `begin` to the end of the token at `end`, if no macro produces a part of it. It is editable if its file is.
[[nodiscard]] stretch stretch_of(clang::ASTContext const& context, program const& p, clang::SourceRange range);
// The text of the token at `at`, at the place where it is spelled, which may be in a macro's body.
[[nodiscard]] stretch spelled_at(clang::ASTContext const& context, program const& p, clang::SourceLocation at);

}  // namespace coalesce
