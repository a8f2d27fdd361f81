// The values of expressions, and the effects of expressions on variables.
#include "flow.hpp"
#include "frontend.hpp"
#include "known.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>

#include <algorithm>

namespace coalesce {

using namespace clang;

value flow::eval_children(Stmt const* e) {
  value v;
  for (auto const* child : e->children()) {
    if (auto const* part = dyn_cast_or_null<Expr>(child)) v = join(v, eval(part));
  }
  return v;
}

value flow::eval(Expr const* e) {
  if (e == nullptr) return {};
  if (auto const* named = dyn_cast<DeclRefExpr>(e)) {
    if (is_captured(named)) return object_;
    if (auto const* f = dyn_cast<FunctionDecl>(named->getDecl())) note_address(named, f);
    if (auto const* v = dyn_cast<VarDecl>(named->getDecl())) return read(v, e);
    if (auto const* part = dyn_cast<BindingDecl>(named->getDecl()); part != nullptr && part->getBinding() != nullptr && !pattern_)
      return eval(part->getBinding());
    bool const constant =
        isa<EnumConstantDecl>(named->getDecl()) || isa<FunctionDecl>(named->getDecl()) || isa<NonTypeTemplateParmDecl>(named->getDecl());
    return constant ? value{} : differs(e->getExprLoc(), named->getDecl()->getNameAsString() + " is a part of an object");
  }
  if (auto const* called = dyn_cast<CallExpr>(e)) return eval_call(called);
  if (auto const* made = dyn_cast<CXXConstructExpr>(e)) return eval_construct(made);
  if (auto const* created = dyn_cast<CXXNewExpr>(e)) return eval_new(created);
  if (auto const* ended = dyn_cast<CXXDeleteExpr>(e)) {
    value const v = eval(ended->getArgument());
    note_delete(ended);
    return v;
  }
  if (auto const* property = dyn_cast<PseudoObjectExpr>(e)) return eval(property->getSyntacticForm());
  if (auto const* property = dyn_cast<MSPropertyRefExpr>(e)) return eval(property->getBaseExpr());
  if (auto const* opaque = dyn_cast<OpaqueValueExpr>(e)) return eval(opaque->getSourceExpr());
  if (isa<UnaryExprOrTypeTraitExpr>(e)) return {};
  if (auto const* choice = dyn_cast<AbstractConditionalOperator>(e)) return eval_conditional(choice);
  if (auto const* binary = dyn_cast<BinaryOperator>(e)) {
    if (binary->isLogicalOp()) {
      value const first = eval(binary->getLHS());
      value const outer = control_;
      control_ = join(
          control_, branch(first, binary->getOperatorLoc(), cause_kind::condition, "what is after this is evaluated by some threads only"));
      state const without = now_;
      value const second = eval(binary->getRHS());
      join_into(now_, without);
      control_ = outer;
      return join(first, second);
    }
    if (binary->isAssignmentOp()) {
      value v = eval(binary->getRHS());
      if (binary->isCompoundAssignmentOp()) v = join(v, eval(binary->getLHS()));
      assign(binary->getLHS(), v);
      return v;
    }
  }
  if (auto const* unary = dyn_cast<UnaryOperator>(e)) {
    if (unary->isIncrementDecrementOp()) {
      value const v = eval(unary->getSubExpr());
      assign(unary->getSubExpr(), v);
      return v;
    }
    if (unary->getOpcode() == UO_Deref) return load(e);
    if (unary->getOpcode() == UO_AddrOf) {
      escape(unary->getSubExpr());
      return part_of(unary->getSubExpr()).index;
    }
  }
  if (isa<ArraySubscriptExpr>(e) || isa<MemberExpr>(e)) return load(e);
  if (isa<CXXThisExpr>(e)) {
    facts_.leaked |= std::uint64_t{1} << this_object;
    return differs(e->getExprLoc(), "the address of an object");
  }
  if (auto const* lambda = dyn_cast<LambdaExpr>(e)) {
    value v;
    for (auto const* initial : lambda->capture_inits()) v = join(v, eval(initial));
    for (auto const& captured : lambda->captures()) {
      if (captured.capturesVariable() && captured.getCaptureKind() == LCK_ByRef) {
        if (auto const* variable = dyn_cast<VarDecl>(captured.getCapturedVar())) escaped_.insert(variable);
      }
    }
    return v;
  }
  if (auto const* block = dyn_cast<StmtExpr>(e)) {
    value const outer = control_;
    if (pattern_) control_ = differs(e->getExprLoc(), "inside a statement expression", cause_kind::condition);
    walk(block->getSubStmt());
    control_ = outer;
    return differs(e->getExprLoc(), "the value of a statement expression");
  }
  if (isa<AtomicExpr>(e))
    return (void)eval_children(e), now_.shared_unknown = true, differs(e->getExprLoc(), "the result of an atomic operation");
  if (auto const* standard = dyn_cast<CXXDefaultArgExpr>(e))
    return eval_shared_text(standard->getExpr(), standard->getExpr()->getExprLoc());
  if (auto const* standard = dyn_cast<CXXDefaultInitExpr>(e))
    return eval_shared_text(standard->getExpr(), standard->getExpr()->getExprLoc());
  return eval_children(e);
}

// The text of a default argument or of a default member initializer serves all its uses, in which different threads may come. So no call in
// it is collective.
value flow::eval_shared_text(Expr const* e, SourceLocation at) {
  value const outer = shared_text_;
  shared_text_ = join(outer, differs(at, "this text serves every call or object that relies on it", cause_kind::condition));
  value const v = eval(e);
  shared_text_ = outer;
  return v;
}

value flow::eval_conditional(AbstractConditionalOperator const* e) {
  value const condition = eval(e->getCond());
  value const outer = control_;
  control_ = join(control_, branch(condition, e->getQuestionLoc(), cause_kind::condition, "this condition may differ between threads"));
  state const before = now_;
  value const first = eval(e->getTrueExpr());
  state const after_first = now_;
  now_ = before;
  value const second = eval(e->getFalseExpr());
  join_into(now_, after_first);
  control_ = outer;
  return join(condition, join(first, second));
}

// Reads a variable by its name.
value flow::read(VarDecl const* v, Expr const* e) {
  if (auto const special = scope_of_variable(v->getName()); special && v->hasGlobalStorage()) {
    if (*special == scope::grid) return {};
    scope const same_in = pattern_ ? scope::thread : *special;
    return {same_in, 0, a_.cause_at(context_, e->getExprLoc(), cause_kind::source, v->getNameAsString() + " is read here", -1)};
  }
  if (v->isConstexpr() ||
      (v->getType().isConstQualified() && v->getAnyInitializer() != nullptr && v->getAnyInitializer()->isEvaluatable(context_)))
    return {};
  if (v->hasAttr<CUDASharedAttr>()) {
    bool const written = now_.shared_unknown || now_.shared_written.count(v) != 0;
    if (pattern_ || written || v->getType().isVolatileQualified())
      return differs(e->getExprLoc(), v->getNameAsString() + " is shared memory, perhaps written since the last barrier");
    // Without a data race, all threads of the block that reach this read together get the same value.
    return {scope::block, 0,
            a_.cause_at(context_, e->getExprLoc(), cause_kind::source, v->getNameAsString() + " belongs to the block", -1)};
  }
  if (v->hasGlobalStorage()) {
    if (v->hasAttr<CUDAConstantAttr>()) return pattern_ ? differs(e->getExprLoc(), "a variable") : value{};
    return differs(e->getExprLoc(), v->getNameAsString() + " is memory that any thread may have written");
  }
  if (made_anew_.count(v) != 0) return differs(e->getExprLoc(), v->getNameAsString() + " is made anew in each pass");
  if (pattern_ && escaped_.count(v) != 0) return differs(e->getExprLoc(), "the address of " + v->getNameAsString() + " is known elsewhere");
  if (pattern_ && !isa<ParmVarDecl>(v) && counters_.count(v) == 0)
    return differs(e->getExprLoc(), v->getNameAsString() + " is a variable, which the patterns do not follow");
  if (isa<ParmVarDecl>(v) && v->getType()->isPointerType() && cast<ParmVarDecl>(v)->getFunctionScopeIndex() < this_object)
    facts_.leaked |= std::uint64_t{1} << cast<ParmVarDecl>(v)->getFunctionScopeIndex();  // the pointer's value is used, and perhaps kept
  auto const found = now_.variables.find(v);
  return found == now_.variables.end() ? value{} : found->second;
}

// Whether `e`, in a lambda's body, names a captured variable. Such a variable counts as a part of the lambda object.
bool flow::is_captured(DeclRefExpr const* e) const {
  auto const* method = dyn_cast<CXXMethodDecl>(function_);
  return e->refersToEnclosingVariableOrCapture() && method != nullptr && method->getParent()->isLambda();
}

flow::part flow::part_of(Expr const* e) {
  e = e->IgnoreParens();
  if (auto const* cast = dyn_cast<CastExpr>(e)) {
    auto const kind = cast->getCastKind();
    if (kind == CK_ArrayToPointerDecay || kind == CK_NoOp || kind == CK_DerivedToBase || kind == CK_UncheckedDerivedToBase ||
        kind == CK_BitCast)
      return part_of(cast->getSubExpr());
    if (kind == CK_LValueToRValue) {
      part p = part_of(cast->getSubExpr());
      p.through_pointer = true;
      return p.of_this ? part{} : p;
    }
  }
  if (auto const* named = dyn_cast<DeclRefExpr>(e)) {
    part p;
    if (is_captured(named)) {
      p.captured = true;
      p.whole = false;
      return p;
    }
    if (auto const* binding = dyn_cast<BindingDecl>(named->getDecl()); binding != nullptr && binding->getBinding() != nullptr) {
      p = part_of(binding->getBinding());
      p.whole = false;
      return p;
    }
    p.variable = dyn_cast<VarDecl>(named->getDecl());
    return p;
  }
  if (auto const* member = dyn_cast<MemberExpr>(e)) {
    if (isa<CXXThisExpr>(member->getBase()->IgnoreParenImpCasts())) {
      part p;
      p.of_this = true;
      p.whole = false;
      return p;
    }
    part p = part_of(member->getBase());
    p.whole = false;
    if (member->isArrow() && !p.through_pointer) p = {};
    return p;
  }
  if (auto const* element = dyn_cast<ArraySubscriptExpr>(e)) {
    part p = part_of(element->getBase());
    p.index = join(p.index, eval(element->getIdx()));
    p.whole = false;
    return p;
  }
  if (auto const* unary = dyn_cast<UnaryOperator>(e);
      unary != nullptr && (unary->getOpcode() == UO_Deref || unary->getOpcode() == UO_AddrOf)) {
    part p = part_of(unary->getSubExpr());
    p.whole = false;
    return p;
  }
  if (auto const* bound = dyn_cast<MaterializeTemporaryExpr>(e)) return part_of(bound->getSubExpr());
  part p;
  p.index = eval(e);
  return p;
}

// The value of *p, p[i], x.m or p->m.
value flow::load(Expr const* e) {
  if (auto const* member = dyn_cast<MemberExpr>(e)) {
    if (auto const* v = dyn_cast<VarDecl>(member->getMemberDecl())) return read(v, e);  // a static member
    if (!isa<FieldDecl>(member->getMemberDecl())) return eval(member->getBase());
  }
  part const p = part_of(e);
  if (p.of_this || p.captured) return join(object_, p.index);
  if (p.variable != nullptr) {
    if (!p.through_pointer) return join(read(p.variable, e), p.index);
    auto const pointee = p.variable->getType()->getPointeeType();
    if (!pattern_ && p.variable->getType().isRestrictQualified() && !pointee.isNull() && pointee.isConstQualified() &&
        !pointee.isVolatileQualified())
      return join(read(p.variable, e), p.index);
    if (!pattern_ && p.variable->getType()->isReferenceType()) return join(read(p.variable, e), p.index);
  }
  return differs(e->getExprLoc(), "read from memory that any thread may have written");
}

void flow::assign(Expr const* to, value v) {
  value const where = here();
  if (v.same_in != scope::grid && v.cause >= 0) {
    auto const at = to->getExprLoc();
    place const here_is = place_of(context_.getSourceManager(), at);
    place const was = a_.found.causes[static_cast<std::size_t>(v.cause)].at;
    if (was.line != here_is.line || was.file != here_is.file)
      v.cause = a_.cause_at(context_, at, cause_kind::data,
                            text_of(context_, to->getSourceRange()) + " gets a value here that differs between threads", v.cause);
  }
  v = join(v, where);
  part const p = part_of(to);
  v = join(v, p.index);
  if (p.of_this) {
    object_ = join(object_, v);
    facts_.written[this_object] = join(facts_.written[this_object], v);
    return;
  }
  if (p.captured) object_ = join(object_, v);
  if (p.variable == nullptr) return write_somewhere(v);
  if (p.variable->hasAttr<CUDASharedAttr>()) {
    now_.shared_written.insert(p.variable);
    facts_.writes_memory = true;
    return;
  }
  auto const* parameter = dyn_cast<ParmVarDecl>(p.variable);
  bool const is_reference = p.variable->getType()->isReferenceType();
  if (p.through_pointer || is_reference || p.variable->hasGlobalStorage()) {
    if (parameter == nullptr) return write_somewhere(v);
    now_.shared_unknown = facts_.writes_memory = true;
    {
      auto& written = facts_.written[parameter->getFunctionScopeIndex()];
      written = join(written, v);
      if (is_reference) now_.variables[p.variable] = join(now_.variables[p.variable], v);
    }
    return;
  }
  auto& variable = now_.variables[p.variable];
  variable = p.whole ? v : join(variable, v);
}

// Records a write to unknown memory. It may change each variable whose address is known elsewhere.
void flow::write_somewhere(value v) {
  now_.shared_unknown = facts_.writes_memory = true;
  facts_.memory = join(facts_.memory, v);
  for (auto const* variable : escaped_) now_.variables[variable] = join(now_.variables[variable], v);
}

// Records that the address of a variable is kept in a place that is not followed. From here on, a write to unknown memory may change the
// variable.
void flow::escape(Expr const* e) {
  part const p = part_of(e);
  if (p.variable == nullptr) return;
  if (auto const* parameter = dyn_cast<ParmVarDecl>(p.variable);
      parameter != nullptr && (p.through_pointer || parameter->getType()->isReferenceType()))
    facts_.leaked |= std::uint64_t{1} << std::min(parameter->getFunctionScopeIndex(), no_parameter);
  if (!p.through_pointer && !p.variable->hasGlobalStorage()) {
    escaped_.insert(p.variable);
    if (auto const* reference = p.variable;
        reference->getType()->isReferenceType() && reference->getInit() != nullptr && e != reference->getInit())
      escape(reference->getInit());
  }
  if (p.variable->hasAttr<CUDASharedAttr>()) now_.shared_written.insert(p.variable);
}

}  // namespace coalesce
