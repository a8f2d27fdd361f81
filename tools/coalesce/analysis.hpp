// Finds the facts about functions from syntax trees: which functions there are, and what each does. Uses Clang; the results are in
// `program`.
#pragma once

#include "facts.hpp"
#include "options.hpp"

#include <clang/AST/Decl.h>
#include <clang/Frontend/ASTUnit.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace coalesce {

class analysis {
 public:
  analysis(options const& asked, program& p) : asked{asked}, found{p} {}

  // Collects one translation unit: functions, declarations, main, addresses taken.
  void collect(clang::ASTUnit& unit, unsigned number);
  // Works out the facts of every device function that was collected.
  void run();

  // The facts about `f`, found now if need be; null without a definition, or while they are being found (a recursion).
  function_facts const* facts_of(clang::FunctionDecl const* f);

  [[nodiscard]] std::string key_of(clang::FunctionDecl const* f) const;
  // The definition of `f`, perhaps in another translation unit.
  [[nodiscard]] clang::FunctionDecl const* definition_of(clang::FunctionDecl const* f) const;
  // True for code of the user: no header of the system, of the toolkit, or of this library.
  [[nodiscard]] static bool is_users(clang::Decl const* d);
  // The number of a cause: a new one, or the one that was there before.
  int cause_at(clang::ASTContext const& context, clang::SourceLocation at, cause_kind kind, std::string const& text, int from);

  options const& asked;
  program& found;

 private:
  friend class collector;
  struct in_work {};

  std::map<std::string, clang::FunctionDecl const*> definitions_;
  std::vector<clang::FunctionDecl const*> to_analyse_;
  std::map<clang::FunctionDecl const*, std::unique_ptr<function_facts>> facts_;  // null: in work
  std::map<std::string, int> cause_numbers_;
  unsigned depth_ = 0;
};

// Whether `f` is device code: __device__ or __global__, also as the body of a lambda's kernel.
[[nodiscard]] bool is_device(clang::FunctionDecl const* f);
[[nodiscard]] bool is_kernel(clang::FunctionDecl const* f);
// The text of an expression as it stands in the file, on one line.
[[nodiscard]] std::string text_of(clang::ASTContext const& context, clang::SourceRange range);

}  // namespace coalesce
