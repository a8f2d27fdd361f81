// The data flow of one function: the values of variables, and the conditions under which each statement is reached. The analysis visits
// straight code once, and a loop until nothing changes.
//
// The analysis follows structured control flow only: in a function with goto, try, or assembly that jumps, all statements count as reached
// under conditions that differ between threads. A value that is assigned under such a condition counts as different between threads itself.
// This covers the joins after branches and loops.
#pragma once

#include "analysis.hpp"

#include <clang/AST/Expr.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/Stmt.h>

#include <map>
#include <set>
#include <vector>

namespace coalesce {

class flow {
 public:
  flow(analysis& a, clang::FunctionDecl const* f);
  [[nodiscard]] function_facts run();

 private:
  struct state {
    std::map<clang::VarDecl const*, value> variables;
    std::set<clang::VarDecl const*> shared_written;  // since the last barrier
    bool shared_unknown = false;                     // a write to unknown memory may have changed shared memory
    bool reachable = true;
    value waits;        // its group is the grid as long as no rank has waited for a message since all ranks last met (note_message)
    bool sent = false;  // whether a rank has sent a message since all ranks last met
  };
  struct frame {
    bool is_loop;
    value left, skipped;  // the conditions of break (`left`) and of continue (`skipped`)
    std::vector<state> after_break, after_continue;
  };
  // The object of which an lvalue is a part.
  struct part {
    clang::VarDecl const* variable = nullptr;
    bool whole = true;
    bool of_this = false, captured = false;
    bool through_pointer = false;  // the lvalue is what the pointer `variable` points to
    value index;
  };

  // statements (flow.cpp)
  void walk(clang::Stmt const* s);
  void walk_declaration(clang::VarDecl const* v);
  void walk_condition_variable(clang::VarDecl const* v);
  void walk_if(clang::IfStmt const* s);
  void walk_loop(clang::Stmt const* s, clang::Expr const* condition, clang::Stmt const* step, clang::Stmt const* body, bool body_first);
  void walk_for(clang::ForStmt const* s);
  void walk_switch(clang::SwitchStmt const* s);
  void leave_function(clang::Stmt const* s);
  void leave_with_messages();
  [[nodiscard]] value here() const;      // the conditions under which the current statement is reached
  [[nodiscard]] value together() const;  // here(), and whether threads that reach the statement may wait for one another there
  [[nodiscard]] value branch(value condition, clang::SourceLocation at, cause_kind kind, char const* text);
  [[nodiscard]] bool is_opaque(clang::Stmt const* s, bool in_switch = false) const;
  static void join_into(state& into, state const& other);
  [[nodiscard]] static bool same(state const& a, state const& b);

  // expressions (expressions.cpp)
  value eval(clang::Expr const* e);
  value eval_shared_text(clang::Expr const* e, clang::SourceLocation at);
  value eval_children(clang::Stmt const* e);
  value read(clang::VarDecl const* v, clang::Expr const* e);
  value load(clang::Expr const* e);
  value eval_conditional(clang::AbstractConditionalOperator const* e);
  void assign(clang::Expr const* to, value v);
  [[nodiscard]] part part_of(clang::Expr const* e);
  void write_somewhere(value v);
  void escape(clang::Expr const* e);
  [[nodiscard]] bool is_captured(clang::DeclRefExpr const* e) const;

  // calls (calls.cpp)
  void note_message(clang::CallExpr const* e, std::string const& name, std::map<unsigned, value> const& arguments);
  [[nodiscard]] bool reads_arguments(clang::CallExpr const* e);
  value eval_call(clang::CallExpr const* e);
  value eval_construct(clang::CXXConstructExpr const* e);
  value call_visible(function_facts const& facts, std::map<unsigned, value> const& arguments,
                     std::map<unsigned, clang::Expr const*> const& addressed);
  void spoil(std::map<unsigned, clang::Expr const*> const& addressed);
  value eval_new(clang::CXXNewExpr const* e);
  void note_delete(clang::CXXDeleteExpr const* e);
  void note_release(clang::CallExpr const* e);
  void note_address(clang::DeclRefExpr const* named, clang::FunctionDecl const* f);
  value allocate(clang::CallExpr const* e, site_kind kind, std::map<unsigned, value> const& arguments);
  void note_call(clang::CallExpr const* e, clang::FunctionDecl const* callee, std::map<unsigned, value> const& arguments);
  void tell(severity level, char const* id, clang::SourceLocation at, std::string const& text);
  [[nodiscard]] value differs(clang::SourceLocation at, std::string const& text, cause_kind kind = cause_kind::source, int from = -1);
  [[nodiscard]] std::string macro_of(clang::SourceLocation at, place& body) const;
  [[nodiscard]] stretch closing(clang::SourceLocation at) const;

  analysis& a_;
  clang::FunctionDecl const* function_;
  clang::ASTContext& context_;
  function_facts facts_;
  bool users_, root_, pattern_;

  state now_;
  value control_;  // the conditions of the current statement, without those in frames_ and left_
  value left_;     // conditions under which threads have returned and are still alive
  value object_;   // *this
  std::vector<frame> frames_;
  std::set<clang::VarDecl const*> escaped_, assigned_, counters_, made_anew_;
  std::map<clang::Expr const*, site> sites_;
  std::map<clang::Expr const*, call> calls_;
  std::map<clang::Expr const*, release> releases_;
  int arm_of_ = -1;
  bool arm_else_ = false;
  value shared_text_;  // differs inside a default argument or a default member initializer, whose text serves all its uses
};

}  // namespace coalesce
