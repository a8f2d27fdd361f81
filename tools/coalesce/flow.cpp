#include "flow.hpp"

#include "frontend.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/StmtCXX.h>

namespace coalesce {

using namespace clang;

flow::flow(analysis& a, FunctionDecl const* f)
    : a_{a}, function_{f}, context_{f->getASTContext()}, users_{a.is_users(f)}, pattern_{a.asked.pattern} {
  facts_.key = a.key_of(f);
  root_ = is_kernel(f) || a.asked.roots.count(f->getQualifiedNameAsString()) != 0;
}

namespace {

// The variables that are assigned, or have their address taken, anywhere in a body.
void find_assigned(Stmt const* s, std::set<VarDecl const*>& assigned) {
  if (s == nullptr) return;
  auto const note = [&](Expr const* e) {
    if (auto const* named = dyn_cast<DeclRefExpr>(e->IgnoreParenCasts())) {
      if (auto const* v = dyn_cast<VarDecl>(named->getDecl())) assigned.insert(v);
    }
  };
  if (auto const* binary = dyn_cast<BinaryOperator>(s); binary != nullptr && binary->isAssignmentOp()) note(binary->getLHS());
  if (auto const* unary = dyn_cast<UnaryOperator>(s);
      unary != nullptr && (unary->isIncrementDecrementOp() || unary->getOpcode() == UO_AddrOf))
    note(unary->getSubExpr());
  for (auto const* child : s->children()) find_assigned(child, assigned);
}

}  // namespace

bool flow::is_opaque(Stmt const* s, bool in_switch) const {
  if (s == nullptr) return false;
  if (isa<GotoStmt>(s) || isa<IndirectGotoStmt>(s) || isa<LabelStmt>(s) || isa<CXXTryStmt>(s)) return true;
  if (auto const* assembly = dyn_cast<GCCAsmStmt>(s)) {
    auto const text = assembly->getAsmString()->getString();
    if (assembly->isAsmGoto() || text.contains("exit") || text.contains("bra") || text.contains("ret")) return true;
  }
  for (auto const* child : s->children()) {
    // A case label that is nested deeper in the body of its switch is a jump into the nested statement.
    bool const in_place = isa<SwitchCase>(s) || in_switch;
    if (isa_and_nonnull<SwitchCase>(child) && !in_place) return true;
    if (is_opaque(child, isa<SwitchStmt>(s) && child == cast<SwitchStmt>(s)->getBody())) return true;
  }
  return false;
}

function_facts flow::run() {
  Stmt const* const body = function_->getBody();
  find_assigned(body, assigned_);
  for (unsigned i = 0; i < function_->getNumParams(); ++i) {
    auto const* parameter = function_->getParamDecl(i);
    value v = root_ ? value{} : of_parameter(i);
    if (i >= this_object) v = differs(parameter->getLocation(), "more parameters than are followed");
    if (pattern_ && assigned_.count(parameter) != 0)
      v = differs(parameter->getLocation(), "the parameter " + parameter->getNameAsString() + " is assigned");
    now_.variables[parameter] = v;
  }
  object_ = pattern_ ? differs(function_->getLocation(), "a member of an object") : of_parameter(this_object);
  now_.shared_unknown = !root_;
  if (is_opaque(body))
    control_ = differs(function_->getLocation(), "this function has goto, try or assembly that jumps", cause_kind::condition);
  if (auto const* constructor = dyn_cast<CXXConstructorDecl>(function_)) {
    for (auto const* initial : constructor->inits()) object_ = join(object_, eval(initial->getInit()));
  }
  walk(body);
  if (now_.reachable) leave_with_messages();
  if (isa<CXXConstructorDecl>(function_)) facts_.written[this_object] = join(facts_.written[this_object], object_);
  for (auto& [e, s] : sites_) facts_.sites.push_back(s);
  for (auto& [e, c] : calls_) facts_.calls.push_back(c);
  for (auto& [e, r] : releases_) facts_.releases.push_back(r);
  return facts_;
}

value flow::here() const {
  value v = join(control_, left_);
  for (auto const& f : frames_) v = join(v, join(f.left, f.skipped));
  return v;
}

value flow::together() const { return join(shared_text_, join(here(), now_.waits)); }

value flow::differs(SourceLocation at, std::string const& text, cause_kind kind, int from) {
  return {scope::thread, 0, a_.cause_at(context_, at, kind, text, from)};
}

// The condition as it applies to the code that it guards, with `text` as the cause of a difference.
value flow::branch(value condition, SourceLocation at, cause_kind kind, char const* text) {
  if (pattern_ && condition.same_in != scope::grid) condition.same_in = scope::thread;
  if (condition.same_in != scope::grid) condition.cause = a_.cause_at(context_, at, kind, text, condition.cause);
  return condition;
}

void flow::join_into(state& into, state const& other) {
  if (!other.reachable) return;
  if (!into.reachable) {
    into = other;
    return;
  }
  for (auto const& [v, what] : other.variables) {
    auto const [entry, is_new] = into.variables.emplace(v, what);
    if (!is_new) entry->second = join(entry->second, what);
  }
  into.shared_written.insert(other.shared_written.begin(), other.shared_written.end());
  into.shared_unknown = into.shared_unknown || other.shared_unknown;
  into.waits = join(into.waits, other.waits);
  into.sent = into.sent || other.sent;
}

bool flow::same(state const& a, state const& b) {
  if (a.variables.size() != b.variables.size() || a.reachable != b.reachable) return false;
  if (a.shared_written != b.shared_written || a.shared_unknown != b.shared_unknown) return false;
  if (!a.waits.same_as(b.waits) || a.sent != b.sent) return false;
  for (auto const& [v, what] : a.variables) {
    auto const other = b.variables.find(v);
    if (other == b.variables.end() || !other->second.same_as(what)) return false;
  }
  return true;
}

void flow::walk(Stmt const* s) {
  if (s == nullptr) return;
  if (auto const* e = dyn_cast<Expr>(s)) {
    (void)eval(e);
  } else if (auto const* compound = dyn_cast<CompoundStmt>(s)) {
    for (auto const* child : compound->body()) walk(child);
  } else if (auto const* declared = dyn_cast<DeclStmt>(s)) {
    for (auto const* d : declared->decls()) {
      if (auto const* v = dyn_cast<VarDecl>(d)) walk_declaration(v);
    }
  } else if (auto const* choice = dyn_cast<IfStmt>(s)) {
    walk_if(choice);
  } else if (auto const* loop = dyn_cast<ForStmt>(s)) {
    walk_for(loop);
  } else if (auto const* loop = dyn_cast<WhileStmt>(s)) {
    if (auto const* v = loop->getConditionVariable()) walk_condition_variable(v);
    walk_loop(s, loop->getCond(), nullptr, loop->getBody(), false);
  } else if (auto const* loop = dyn_cast<DoStmt>(s)) {
    walk_loop(s, loop->getCond(), nullptr, loop->getBody(), true);
  } else if (auto const* loop = dyn_cast<CXXForRangeStmt>(s)) {
    walk(loop->getInit());
    walk(loop->getRangeStmt());
    walk(loop->getBeginStmt());
    walk(loop->getEndStmt());
    walk(loop->getLoopVarStmt());  // initialised from the iterator, whose value stands for all passes
    walk_loop(s, loop->getCond(), loop->getInc(), loop->getBody(), false);
  } else if (auto const* choice = dyn_cast<SwitchStmt>(s)) {
    walk_switch(choice);
  } else if (isa<BreakStmt>(s)) {
    if (!frames_.empty()) {
      value const why = branch(here(), s->getBeginLoc(), cause_kind::early_exit, "threads leave early here");
      frames_.back().left = join(frames_.back().left, why);
      frames_.back().after_break.push_back(now_);
    }
    now_.reachable = false;
  } else if (isa<ContinueStmt>(s)) {
    for (auto f = frames_.rbegin(); f != frames_.rend(); ++f) {
      value const why = branch(here(), s->getBeginLoc(), cause_kind::early_exit, "threads go on with the next pass here");
      f->skipped = join(f->skipped, why);
      if (!f->is_loop) continue;
      f->after_continue.push_back(now_);
      break;
    }
    now_.reachable = false;
  } else if (isa<ReturnStmt>(s)) {
    leave_function(s);
  } else if (auto const* label = dyn_cast<SwitchCase>(s)) {
    walk(label->getSubStmt());
  } else if (auto const* assembly = dyn_cast<GCCAsmStmt>(s)) {
    for (unsigned i = 0; i < assembly->getNumOutputs(); ++i)
      assign(assembly->getOutputExpr(i), differs(s->getBeginLoc(), "inline assembly"));
    for (unsigned i = 0; i < assembly->getNumInputs(); ++i) (void)eval(assembly->getInputExpr(i));
    now_.shared_unknown = facts_.writes_memory = true;
  } else {
    // Attributes, labels, and other statements that only contain statements.
    for (auto const* child : s->children()) walk(child);
  }
}

void flow::walk_declaration(VarDecl const* v) {
  Expr const* const initial = v->getInit();
  if (v->hasAttr<CUDASharedAttr>() || v->isStaticLocal()) return;
  if (initial == nullptr) return;
  value const what = eval(initial);
  if (v->getType()->isReferenceType()) escape(initial);
  now_.variables[v] = join(what, here());
}

// Handles a variable that a loop's condition declares. Each pass initialises it again, from the values at that time.
void flow::walk_condition_variable(VarDecl const* v) {
  walk_declaration(v);
  made_anew_.insert(v);
}

void flow::leave_with_messages() {
  facts_.waits = join(facts_.waits, now_.waits);
  facts_.sends = facts_.sends || now_.sent;
}

void flow::leave_function(Stmt const* s) {
  if (auto const* ended = dyn_cast<ReturnStmt>(s); ended != nullptr && ended->getRetValue() != nullptr) {
    value const result = eval(ended->getRetValue());
    if (!function_->getReturnType()->isVoidType()) facts_.result = join(facts_.result, join(result, here()));
  }
  leave_with_messages();
  // Threads that return from a kernel end. A heap that counts the live threads (`census`) does not wait for them. Threads that return from
  // another function go on in its caller.
  if (!root_ || !a_.asked.census)
    left_ = join(left_, branch(here(), s->getBeginLoc(), cause_kind::early_exit, "threads return early here"));
  now_.reachable = false;
}

void flow::walk_if(IfStmt const* s) {
  walk(s->getInit());
  if (auto const* v = s->getConditionVariable()) walk_declaration(v);
  value const condition = branch(s->getCond() == nullptr ? value{} : eval(s->getCond()), s->getIfLoc(), cause_kind::condition,
                                 "this condition may differ between threads");
  value const outer = control_;
  int const outer_arm = arm_of_;
  bool const outer_else = arm_else_;
  control_ = join(control_, condition);
  arm_of_ = static_cast<int>(context_.getSourceManager().getFileOffset(s->getIfLoc()));
  arm_else_ = false;
  state const before = now_;
  walk(s->getThen());
  state const after_then = now_;
  now_ = before;
  arm_else_ = true;
  walk(s->getElse());
  join_into(now_, after_then);
  control_ = outer;
  arm_of_ = outer_arm;
  arm_else_ = outer_else;
}

void flow::walk_for(ForStmt const* s) {
  walk(s->getInit());
  if (auto const* v = s->getConditionVariable()) walk_condition_variable(v);
  // The analysis by patterns follows only a loop's counter, and only if nothing but the loop's head changes it.
  std::set<VarDecl const*> counters;
  if (auto const* declared = dyn_cast_or_null<DeclStmt>(s->getInit()); pattern_ && declared != nullptr) {
    std::set<VarDecl const*> assigned;
    find_assigned(s->getBody(), assigned);
    for (auto const* d : declared->decls()) {
      auto const* v = dyn_cast<VarDecl>(d);
      if (v != nullptr && assigned.count(v) == 0 && now_.variables[v].same_in == scope::grid) counters.insert(v);
    }
  }
  auto const outer = counters_;
  counters_.insert(counters.begin(), counters.end());
  walk_loop(s, s->getCond(), s->getInc(), s->getBody(), false);
  counters_ = outer;
}

void flow::walk_loop(Stmt const* s, Expr const* condition, Stmt const* step, Stmt const* body, bool body_first) {
  value const outer = control_;
  value trip;
  auto const counters = counters_;
  auto const test = [&] {
    if (condition == nullptr) return;
    counters_ = counters;
    trip = join(trip, branch(eval(condition), s->getBeginLoc(), cause_kind::loop,
                             "threads may make different numbers of passes through this loop"));
    control_ = join(outer, trip);
  };
  state exit;
  // Ends: join() only raises values, and each value can rise only finitely often.
  for (;;) {
    state const head = now_;
    value const left_before = left_, trip_before = trip;
    frames_.push_back({true, {}, {}, {}, {}});
    // Threads that leave the loop in one pass are missing in the next. So the body is walked until the conditions of leaving stay the same.
    value leaves;
    // Ends: join() only raises values, and each value can rise only finitely often.
    for (;;) {
      now_ = head;
      frames_.back() = {true, leaves, {}, {}, {}};
      control_ = join(outer, trip);
      if (!body_first) test();
      exit = now_;
      if (condition == nullptr && !body_first) exit.reachable = false;
      auto const of_head = counters_;
      counters_.clear();
      walk(body);
      counters_ = of_head;
      for (auto const& other : frames_.back().after_continue) join_into(now_, other);
      frames_.back().skipped = {};
      if (body_first) {
        test();
        exit = now_;
      }
      if (frames_.back().left.same_as(leaves)) break;
      leaves = join(leaves, frames_.back().left);
    }
    frame const ended = frames_.back();
    frames_.pop_back();
    walk(step);
    for (auto const& other : ended.after_break) join_into(exit, other);
    state next = now_;
    join_into(next, head);
    bool const stable = same(next, head) && left_.same_as(left_before) && trip.same_as(trip_before);
    now_ = stable ? exit : next;
    if (stable) break;
  }
  control_ = outer;
}

void flow::walk_switch(SwitchStmt const* s) {
  walk(s->getInit());
  if (auto const* v = s->getConditionVariable()) walk_declaration(v);
  value const condition = branch(eval(s->getCond()), s->getSwitchLoc(), cause_kind::condition, "this condition may differ between threads");
  value const outer = control_;
  control_ = join(control_, condition);
  state const before = now_;
  frames_.push_back({false, {}, {}, {}, {}});
  bool has_default = false;
  if (auto const* body = dyn_cast<CompoundStmt>(s->getBody())) {
    now_.reachable = false;
    for (auto const* child : body->body()) {
      if (auto const* label = dyn_cast<SwitchCase>(child)) {
        join_into(now_, before);
        // Follows consecutive case labels.
        for (auto const* l = label; l != nullptr; l = dyn_cast<SwitchCase>(l->getSubStmt()))
          has_default = has_default || isa<DefaultStmt>(l);
      }
      walk(child);
    }
  } else {
    walk(s->getBody());
  }
  frame const ended = frames_.back();
  frames_.pop_back();
  if (!has_default) join_into(now_, before);
  for (auto const& other : ended.after_break) join_into(now_, other);
  control_ = outer;
}

}  // namespace coalesce
