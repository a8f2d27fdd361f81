// Finds facts about a program's functions in Clang's syntax trees. The results are in `program`.
#pragma once

#include "facts.hpp"
#include "options.hpp"

#include <clang/AST/Decl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace clang {
class ASTUnit;  // g++ takes ten seconds to read its header
}

namespace coalesce {

class analysis {
 public:
  analysis(options const& asked, program& p) : asked{asked}, found{p} {}

  // Collects one translation unit: functions, declarations, main, addresses taken.
  void collect(clang::ASTUnit& unit, unsigned number);
  // Finds the facts about every device function that was collected.
  void run();

  // The facts about `f`, found now if they are not known yet. Null if `f` has no definition, or if its facts are being found (a recursion).
  function_facts const* facts_of(clang::FunctionDecl const* f);

  [[nodiscard]] std::string key_of(clang::FunctionDecl const* f) const;
  // The definition of `f`, perhaps in another translation unit.
  [[nodiscard]] clang::FunctionDecl const* definition_of(clang::FunctionDecl const* f) const;
  // Whether `d` is the user's code: not in a header of the system, of the toolkit, or of this library.
  [[nodiscard]] static bool is_users(clang::Decl const* d);
  // The number of the cause with this place and text, which is added if there is none.
  int cause_at(clang::ASTContext const& context, clang::SourceLocation at, cause_kind kind, std::string const& text, int from);

  options const& asked;
  program& found;

 private:
  friend class collector;

  std::map<std::string, clang::FunctionDecl const*> definitions_;
  std::vector<clang::FunctionDecl const*> to_analyse_;
  std::map<clang::FunctionDecl const*, std::unique_ptr<function_facts>> facts_;  // null: being found
  std::map<std::string, int> cause_numbers_;
  unsigned depth_ = 0;
};

// Whether `f` is device code: a __device__ or __global__ function, or the call operator of a lambda that is declared so.
[[nodiscard]] bool is_device(clang::FunctionDecl const* f);
[[nodiscard]] bool is_kernel(clang::FunctionDecl const* f);
// The text of an expression as it stands in the file, on one line.
[[nodiscard]] std::string text_of(clang::ASTContext const& context, clang::SourceRange range);

}  // namespace coalesce
