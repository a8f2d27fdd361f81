// Inserts casts for the conversions that are implicit in C and not in C++.
#include "frontend.hpp"
#include "translator.hpp"

#include <clang/AST/Expr.h>
#include <clang/AST/ParentMapContext.h>

namespace coalesce {

using namespace clang;

namespace {

bool converts_in_cpp(ASTContext const& context, QualType from, QualType to) {
  QualType const f = from->getPointeeType(), t = to->getPointeeType();
  bool const keeps = t.isAtLeastAsQualifiedAs(f);
  if (context.hasSameUnqualifiedType(f, t)) return keeps;
  return t->isVoidType() && keeps && !f->isFunctionType();
}

// Whether C++ forbids this conversion in a braced initializer, because it may change the value.
bool is_narrowing(ASTContext const& context, ImplicitCastExpr const* e) {
  auto const* inner = e->getSubExpr();
  bool const constant = inner->isEvaluatable(context);
  switch (e->getCastKind()) {
    case CK_FloatingToIntegral:
      return true;
    case CK_IntegralToFloating:
    case CK_FloatingCast:
      return !constant && (e->getCastKind() == CK_IntegralToFloating || context.getFloatingTypeOrder(e->getType(), inner->getType()) < 0);
    case CK_IntegralCast: {
      if (e->getType()->isEnumeralType() || inner->getType()->isEnumeralType()) return false;
      Expr::EvalResult before, after;
      if (constant && inner->EvaluateAsInt(before, context) && e->EvaluateAsInt(after, context))
        return llvm::APSInt::compareValues(before.Val.getInt(), after.Val.getInt()) != 0;
      bool const wider = context.getIntWidth(e->getType()) > context.getIntWidth(inner->getType());
      bool const same_sign = e->getType()->isSignedIntegerType() == inner->getType()->isSignedIntegerType();
      bool const fits = wider ? e->getType()->isSignedIntegerType() || same_sign
                              : same_sign && context.getIntWidth(e->getType()) == context.getIntWidth(inner->getType());
      return !fits;
    }
    default:
      return false;
  }
}

bool is_string(Expr const* e) { return isa<StringLiteral>(e->IgnoreParens()); }

}  // namespace

void conversions::look_at(ImplicitCastExpr const* e) {
  auto const* inner = e->getSubExpr();
  QualType const from = inner->getType(), to = e->getType();
  switch (e->getCastKind()) {
    case CK_BitCast:
    case CK_NoOp:
      if (from->isPointerType() && to->isPointerType() && !converts_in_cpp(context_, from, to)) write(inner, to);
      return;
    case CK_NullToPointer: {
      // C++ converts the macro NULL implicitly. It does not convert a cast to void* that the program writes itself.
      auto const* written = dyn_cast<CStyleCastExpr>(inner->IgnoreParens());
      bool const by_system =
          written != nullptr && !t_.is_users(context_, context_.getSourceManager().getSpellingLoc(written->getBeginLoc()));
      if (written != nullptr && !by_system && !to->isVoidPointerType()) write(inner, to);
      return;
    }
    case CK_IntegralCast:
      if (to->isEnumeralType()) {
        auto const* named = dyn_cast<DeclRefExpr>(inner->IgnoreParens());
        auto const* constant = named == nullptr ? nullptr : dyn_cast<EnumConstantDecl>(named->getDecl());
        if (constant == nullptr || cast<EnumDecl>(constant->getDeclContext()) != to->castAs<EnumType>()->getDecl()) write(inner, to);
      }
      return;
    case CK_ArrayToPointerDecay: {
      if (!is_string(inner)) return;
      // A string literal that is converted to `char*`. C++ converts it to `char const*` only.
      auto const parents = context_.getParents(*e);
      if (parents.empty()) return;
      auto const* call = parents[0].get<CallExpr>();
      auto const* assignment = parents[0].get<BinaryOperator>();
      bool parameter = false;
      for (unsigned i = 0; call != nullptr && call->getDirectCallee() != nullptr && i < call->getDirectCallee()->getNumParams(); ++i)
        parameter = parameter || (i < call->getNumArgs() && call->getArg(i) == e);
      if (parents[0].get<VarDecl>() != nullptr || parents[0].get<InitListExpr>() != nullptr || parents[0].get<ReturnStmt>() != nullptr ||
          parameter || (assignment != nullptr && assignment->isAssignmentOp()))
        write(inner, to);
      return;
    }
    default:
      return;
  }
}

namespace {

// Whether C++ allows this initializer: no value has a designator, or each value has one that names a member, in the members' order.
bool has_order_of_cpp(InitListExpr const* e) {
  unsigned named = 0, next = 0;
  for (auto const* initial : e->inits()) {
    auto const* designated = dyn_cast_or_null<DesignatedInitExpr>(initial);
    if (designated == nullptr) continue;
    ++named;
    if (designated->size() != 1 || !designated->getDesignator(0)->isFieldDesignator()) return false;
    auto const* field = designated->getDesignator(0)->getFieldDecl();
    if (field == nullptr || field->getFieldIndex() < next) return false;
    next = field->getFieldIndex() + 1;
  }
  return named == 0 || named == e->getNumInits();
}

}  // namespace

void conversions::look_at(InitListExpr const* e) {
  if (e->isSyntacticForm() && !has_order_of_cpp(e))
    t_.error("M5", t_.at(context_, e->getBeginLoc()),
             "C++ allows designators for members only, in their order, and for all or none: write the values in order, or assign them");
  for (auto const* initial : e->inits()) {
    auto const* conversion = dyn_cast_or_null<ImplicitCastExpr>(initial);
    if (conversion != nullptr && is_narrowing(context_, conversion)) write(conversion->getSubExpr(), conversion->getType());
  }
}

// In C a library function has one signature; in C++ it may have overloads. Casts to the parameter types of C's function select the right
// overload.
void conversions::look_at(CallExpr const* e) {
  auto const* callee = e->getDirectCallee();
  if (callee == nullptr || t_.is_users(context_, callee->getLocation()) || callee->getName().starts_with("MPI_")) return;
  bool const whole = callee->getName() == "abs" || callee->getName() == "labs" || callee->getName() == "llabs";
  for (unsigned i = 0; i < e->getNumArgs() && i < callee->getNumParams(); ++i) {
    auto const* conversion = dyn_cast<ImplicitCastExpr>(e->getArg(i));
    if (conversion == nullptr) continue;
    auto const kind = conversion->getCastKind();
    bool const to_floating = kind == CK_FloatingCast || kind == CK_IntegralToFloating;
    if (to_floating || kind == CK_FloatingToIntegral || (whole && kind == CK_IntegralCast))
      write(conversion->getSubExpr(), conversion->getType());
  }
}

void conversions::look_at(CompoundLiteralExpr const* e) {
  auto const parents = context_.getParents(*e);
  auto const* unary = parents.empty() ? nullptr : parents[0].get<UnaryOperator>();
  auto const* conversion = parents.empty() ? nullptr : parents[0].get<ImplicitCastExpr>();
  bool const address = (unary != nullptr && unary->getOpcode() == UO_AddrOf) ||
                       (conversion != nullptr && conversion->getCastKind() == CK_ArrayToPointerDecay);
  if (address) {
    t_.error("M5", t_.at(context_, e->getBeginLoc()),
             "in C++ this value is gone before its address is used: make it a variable with a name");
    return;
  }
  auto const type = stretch_of(context_, t_.found, {e->getLParenLoc(), e->getInitializer()->getBeginLoc().getLocWithOffset(-1)});
  auto const list = t_.at(context_, e->getInitializer()->getBeginLoc());
  if (type.file.empty() || list.file != type.file) return;
  auto const* record = e->getType()->getAsRecordDecl();
  bool const named = record != nullptr && !record->getName().empty();
  std::string const name =
      named ? record->getName().str() : e->getType().getUnqualifiedType().getAsString(PrintingPolicy{context_.getLangOpts()});
  t_.changes.replace({type.file, type.offset, list.offset - type.offset, true}, name);
}

// Inserts a cast to `to` before `e`.
void conversions::write(Expr const* e, QualType to) {
  auto const& sources = context_.getSourceManager();
  if (!t_.is_users(context_, sources.getSpellingLoc(e->getBeginLoc())) && sources.isMacroBodyExpansion(e->getBeginLoc()) &&
      !sources.isMacroArgExpansion(e->getBeginLoc())) {
    // The body of a system header's macro is valid C++ as it is. Only an expression that uses the macro may need the cast.
    if (stretch_of(context_, t_.found, e->getSourceRange()).file.empty()) return;
  }
  std::string const type = to.getUnqualifiedType().getAsString(PrintingPolicy{context_.getLangOpts()});
  if (type.find("unnamed") != std::string::npos || type.find("anonymous") != std::string::npos) {
    t_.error("M5", t_.at(context_, e->getExprLoc()), "C++ needs a cast here, to a type that has no name: give the type a name");
    return;
  }
  auto const* bare = e->IgnoreImpCasts();
  bool const atom = isa<CallExpr>(bare) || isa<DeclRefExpr>(bare) || isa<ParenExpr>(bare) || isa<MemberExpr>(bare) ||
                    isa<ArraySubscriptExpr>(bare) || isa<IntegerLiteral>(bare) || isa<FloatingLiteral>(bare) || isa<StringLiteral>(bare) ||
                    isa<UnaryOperator>(bare) || isa<CStyleCastExpr>(bare);
  auto where = stretch_of(context_, t_.found, e->getSourceRange());
  if (where.file.empty()) {
    // In the body of a macro of the program, one cast serves all uses of the macro.
    auto const begin = spelled_at(context_, t_.found, e->getBeginLoc());
    auto const end = spelled_at(context_, t_.found, e->getEndLoc());
    if (begin.file.empty() || begin.file != end.file || end.offset < begin.offset) {
      t_.error("M5", t_.at(context_, e->getExprLoc()),
               "C++ wants the conversion to `" + type + "` written here, where a macro has the text: write it there");
      return;
    }
    where = {begin.file, begin.offset, end.offset + end.length - begin.offset, begin.editable};
  }
  if (!where.editable) {
    t_.error("E3", t_.at(context_, e->getExprLoc()), "this stands in " + where.file + ", which is not among the files given: name it too");
    return;
  }
  std::string text = "(";
  text += type;
  text += atom ? ")" : ")(";
  // Clang writes `int *`; the usual spelling is `int*`.
  if (auto const star = text.find(" *"); star != std::string::npos) text.erase(star, 1);
  t_.changes.insert(where, text);
  if (!atom) t_.changes.insert({where.file, where.offset + where.length, 0, true}, ")");
}

}  // namespace coalesce
