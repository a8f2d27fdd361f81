// The state that the parts of a translation share: the C program, the changes so far, and the facts about functions and variables.
#pragma once

#include "c_tokens.hpp"
#include "translate.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace coalesce {

// The error for a name of MPI that the device MPI lacks.
inline std::string outside_of_device_mpi(std::string const& name) {
  return "the device MPI has no `" + name + "`: docs/mpi.md lists its calls; write this by means of those";
}

// The variables of a translation unit that each rank has for itself.
struct unit_variables {
  std::string stem;                                      // the stem of the unit's file name, used in new names
  std::vector<std::string> structs;                      // the names of the structs that hold them, in order
  std::map<clang::VarDecl const*, std::string> spelled;  // the new name of each, by its first declaration
  std::set<std::pair<std::string, unsigned>> moved;      // the beginnings of the declarations whose text moves out of a function
};

class translator {
 public:
  translator(options const& asked, program& c) : asked{asked}, found{c} {}

  // ---- messages

  void error(char const* id, place const& at, std::string const& text) { tell(severity::error, id, at, text); }
  void tell(severity level, char const* id, place const& at, std::string const& text);

  // ---- places

  // True for code of the program: neither a header of the system nor one of the tool's own.
  [[nodiscard]] bool is_users(clang::ASTContext const& context, clang::SourceLocation at) const;
  [[nodiscard]] place at(clang::ASTContext const& context, clang::SourceLocation where) const;
  // The original text of `file` from `offset` on, `length` characters.
  [[nodiscard]] std::string text_at(std::string const& file, unsigned offset, unsigned length) const;

  // ---- changes

  // Replaces the token at `at`, even in a macro's body. If it is in none of the files given, reports an error and returns false.
  bool replace_word(clang::ASTContext const& context, clang::SourceLocation at, std::string const& text);
  // Inserts `text` in front of the code at `at`. If a macro produces that code, reports an error and returns false.
  bool insert_before(clang::ASTContext const& context, clang::SourceLocation at, std::string const& text, char const* what);
  // Replaces the name of a system header's macro, such as errno, in the program's text. The token at `at` comes from its expansion.
  bool replace_macro(clang::ASTContext const& context, clang::SourceLocation at, std::string const& text);
  // `name`, with as many `_` appended as make it new to the program and to earlier calls.
  [[nodiscard]] std::string fresh(std::string name);

  options const& asked;
  program& found;
  edits changes;
  std::map<std::string, std::vector<c_token>> tokens;   // by file
  std::set<std::string> words;                          // all tokens of all files
  std::set<std::pair<std::string, unsigned>> replaced;  // words that have been replaced, by file and offset
  std::set<std::string> defined;                        // functions that the program defines, by name
  std::set<std::string> there;                          // names of the program that C++ or CUDA has
  struct use {
    place at;
    std::string name;
    bool of_system = false;
  };
  std::vector<use> used;  // uses of functions and variables that the program may not define
  struct main_place {
    std::string file;
    unsigned arguments = 0;
    bool own_words = false;  // argv is char**, and each rank has its own copies of the arguments
  };
  std::vector<main_place> mains;
  // The stack bytes of a function, and its calls.
  struct frame {
    std::uint64_t bytes = 0;
    place at;
    std::set<std::string> calls;
  };
  std::map<std::string, frame> frames;  // by the key frame_of() (rank_functions.cpp)
  bool calls_init = false;
  std::set<std::string> headers;  // headers of the program that the command line does not name
  bool reads_input = false, reads_files = false, reads_environment = false;
  std::set<std::string> read_by_name;  // the names of files that the program reads, if they are literals
  std::string root;
};

// Finds the unit's variables of static storage duration, and turns them into members of structs.
[[nodiscard]] unit_variables find_variables(translator& t, clang::ASTContext& context, std::string const& source,
                                            std::map<std::pair<std::string, unsigned>, std::string>& in_headers);
// Finds the names of the functions that the unit defines.
void find_definitions(translator& t, clang::ASTContext& context);
// Translates arrays of variable length in functions.
class local_arrays {
 public:
  local_arrays(translator& t, clang::ASTContext& context, unit_variables const& variables)
      : t_{t}, context_{context}, variables_{variables} {}
  void look_at(clang::DeclStmt const* s, bool in_block);
  void look_at(clang::ParmVarDecl const* v);
  void look_at(clang::UnaryExprOrTypeTraitExpr const* e);

 private:
  void declare(clang::VarDecl const* v, clang::SourceLocation semicolon);
  [[nodiscard]] bool has_rank_variable(clang::Expr const* e) const;
  translator& t_;
  clang::ASTContext& context_;
  unit_variables const& variables_;
};
// Whether C++ accepts this length of an array as a constant.
[[nodiscard]] bool is_constant_in_cpp(clang::ASTContext const& context, clang::Expr const* length);
// The bytes of a local variable of this type on the stack. 0 if its length is known at run time only, because it is then on the heap.
[[nodiscard]] std::uint64_t local_bytes(clang::ASTContext const& context, clang::QualType type);
inline constexpr std::uint64_t stack_limit = 512 * 1024;  // CUDA's limit of a thread's stack, in bytes
// Translates the functions and expressions of the unit.
void read_functions(translator& t, clang::ASTContext& context, unit_variables const& variables);
// Inserts casts for the conversions of an expression that are implicit in C and must be explicit in C++.
class conversions {
 public:
  conversions(translator& t, clang::ASTContext& context) : t_{t}, context_{context} {}
  void look_at(clang::ImplicitCastExpr const* e);
  void look_at(clang::InitListExpr const* e);
  void look_at(clang::CallExpr const* e);
  void look_at(clang::CompoundLiteralExpr const* e);

 private:
  void write(clang::Expr const* e, clang::QualType to);
  translator& t_;
  clang::ASTContext& context_;
};

}  // namespace coalesce
