// Arrays whose length is known only at run time. Their elements become a block of the heap for as long as the array is in scope
// (gpuheap/mpi/c/local_arrays.hpp).
#include "frontend.hpp"
#include "translator.hpp"
#include "tree_reader.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Expr.h>
#include <clang/AST/TypeLoc.h>
#include <clang/Lex/Lexer.h>

namespace coalesce {

using namespace clang;

bool is_constant_in_cpp(ASTContext const& context, Expr const* length) {
  Expr::EvalResult value;
  if (!length->EvaluateAsInt(value, context)) return false;
  struct finder : tree_reader {
    bool VisitDeclRefExpr(DeclRefExpr* e) override {
      auto const* v = dyn_cast<VarDecl>(e->getDecl());
      if (v == nullptr) return true;
      bool const integer = v->getType()->isIntegralOrEnumerationType() && v->getType().isConstQualified();
      constant = constant && integer && v->getInit() != nullptr && is_constant_in_cpp(*context, v->getInit());
      return true;
    }
    ASTContext const* context = nullptr;
    bool constant = true;
  } all;
  all.context = &context;
  all.TraverseStmt(const_cast<Expr*>(length));
  return all.constant;
}

std::uint64_t local_bytes(ASTContext const& context, QualType type) {
  std::uint64_t elements = 1;
  while (auto const* array = context.getAsVariableArrayType(type)) {
    Expr::EvalResult length;
    if (!is_constant_in_cpp(context, array->getSizeExpr()) || !array->getSizeExpr()->EvaluateAsInt(length, context)) return 0;
    elements *= length.Val.getInt().getZExtValue();
    type = array->getElementType();
  }
  return type->isVariablyModifiedType() ? 0 : elements * static_cast<std::uint64_t>(context.getTypeSizeInChars(type).getQuantity());
}

namespace {

// The lengths of an array, outermost first; null for a length that is an integer constant.
std::vector<Expr const*> lengths_of(ASTContext const& context, QualType type) {
  std::vector<Expr const*> lengths;
  while (auto const* array = context.getAsArrayType(type)) {
    auto const* variable = dyn_cast<VariableArrayType>(array);
    lengths.push_back(variable == nullptr ? nullptr : variable->getSizeExpr());
    type = array->getElementType();
  }
  return lengths;
}

bool is_constant(ASTContext const& context, QualType type) {
  for (auto const* length : lengths_of(context, type)) {
    if (length != nullptr && !is_constant_in_cpp(context, length)) return false;
  }
  return true;
}

}  // namespace

bool local_arrays::has_rank_variable(Expr const* e) const {
  struct finder : tree_reader {
    bool VisitDeclRefExpr(DeclRefExpr* e) override {
      auto const* v = dyn_cast<VarDecl>(e->getDecl());
      found = found || v == nullptr || known->spelled.count(v->getFirstDecl()) != 0;
      return true;
    }
    unit_variables const* known = nullptr;
    bool found = false;
  } all;
  all.known = &variables_;
  all.TraverseStmt(const_cast<Expr*>(e));
  return all.found;
}

void local_arrays::look_at(DeclStmt const* s, bool in_block) {
  for (auto const* d : s->decls()) {
    auto const* v = dyn_cast<VarDecl>(d);
    if (v == nullptr || !v->getType()->isVariablyModifiedType() || is_constant(context_, v->getType())) continue;
    place const at = t_.at(context_, v->getLocation());
    std::string const name = "`" + v->getNameAsString() + "`";
    if (context_.getAsArrayType(v->getType()) == nullptr)
      t_.error("M5", at,
               name + " points to arrays whose length is known at run time only, which C++ does not allow: point to their elements");
    else if (!in_block || s->getEndLoc().isMacroID() || v->getLocation().isMacroID())
      t_.error("M5", at,
               "the length of " + name + " is known at run time only: declare it on a line of its own, in braces and not by a macro");
    else
      declare(v, s->getEndLoc());
  }
}

void local_arrays::declare(VarDecl const* v, SourceLocation semicolon) {
  place const at = t_.at(context_, v->getLocation());
  std::string const name = v->getNameAsString();
  auto const lengths = lengths_of(context_, v->getType());
  auto const element = context_.getBaseElementType(v->getType());
  std::string const type = element.getAsString(PrintingPolicy{context_.getLangOpts()});
  if (lengths.size() > 2 || type.find("unnamed") != std::string::npos)
    return t_.error("M5", at, "the lengths of `" + name + "` are known at run time only, in more than two dimensions: use malloc and free");
  std::vector<stretch> written;
  TypeLoc where = v->getTypeSourceInfo()->getTypeLoc().getUnqualifiedLoc();
  SourceLocation open, close;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto const array = where.getAs<ArrayTypeLoc>();
    if (!array || array.getSizeExpr() == nullptr || array.getLBracketLoc().isMacroID())
      return t_.error("M5", at,
                      "the length of `" + name + "` is known at run time only, in a form that is not followed: write type name[length]");
    if (i == 0) open = array.getLBracketLoc();
    close = array.getRBracketLoc();
    written.push_back(stretch_of(context_, t_.found, array.getSizeExpr()->getSourceRange()));
    where = array.getElementLoc().getUnqualifiedLoc();
  }
  place const first = t_.at(context_, open), last = t_.at(context_, close);
  if (t_.found.editable.count(at.file) == 0)
    return t_.error("E3", at, "this array stands in " + at.file + ", which is not among the files given: name it too");
  std::string const own = word_in_cpp(name, t_.words, t_.there);
  std::string const begin = " = (" + type + "*)malloc(gpuheap::mpi::c::local_bytes<" + type + ">(";
  std::string after;
  if (lengths.size() == 1) {
    t_.changes.insert({at.file, at.offset, 0, true}, "*");
    t_.changes.replace({at.file, first.offset, 1, true}, begin);
    t_.changes.replace({at.file, last.offset, 1, true}, "))");
    after = " gpuheap::mpi::c::local_array " + t_.fresh(own + "_ends") + "{" + own + "};";
  } else {
    for (std::size_t i = 0; i < 2; ++i) {
      auto const* length = lengths[i];
      bool const moves = written[i].file == at.file && (length == nullptr || !has_rank_variable(length));
      if (!moves)
        return t_.error("M5", at,
                        "the lengths of `" + name + "` are known at run time only: keep them in local variables, outside of macros");
    }
    auto const text = [&](std::size_t i) { return t_.text_at(at.file, written[i].offset, written[i].length); };
    std::string const all = t_.fresh(own + "_all");
    t_.replaced.insert({at.file, at.offset});
    t_.changes.replace({at.file, at.offset, last.offset + 1 - at.offset, true}, "*" + all + begin + text(0) + ", " + text(1) + "))");
    after = " gpuheap::mpi::c::local_array " + t_.fresh(own + "_ends") + "{" + all + "}; gpuheap::mpi::c::local_rows<" + type + "> " + own +
            "{" + all + ", " + text(1) + "};";
  }
  t_.changes.insert({at.file, t_.at(context_, semicolon).offset + 1, 0, true}, after);
}

// A parameter `double row[n]` is a pointer. C++ does not allow the length there, so it is removed.
void local_arrays::look_at(ParmVarDecl const* v) {
  if (!v->getOriginalType()->isVariablyModifiedType()) return;
  place const at = t_.at(context_, v->getLocation());
  if (v->getType()->isPointerType() && v->getType()->getPointeeType()->isVariablyModifiedType())
    return t_.error("M5", at,
                    "the rows of `" + v->getNameAsString() + "` have a length that is known at run time only: pass their elements");
  auto const array =
      v->getTypeSourceInfo() == nullptr ? ArrayTypeLoc{} : v->getTypeSourceInfo()->getTypeLoc().getUnqualifiedLoc().getAs<ArrayTypeLoc>();
  if (!array || array.getSizeExpr() == nullptr) return;
  auto const length = stretch_of(context_, t_.found, array.getSizeExpr()->getSourceRange());
  if (length.editable) t_.changes.replace(length, "");
}

void local_arrays::look_at(UnaryExprOrTypeTraitExpr const* e) {
  if (e->getKind() != UETT_SizeOf || !e->getTypeOfArgument()->isVariablyModifiedType()) return;
  if (is_constant(context_, e->getTypeOfArgument())) return;
  t_.error("M5", t_.at(context_, e->getBeginLoc()),
           "this size is known at run time only: write the number of elements times the size of one");
}

}  // namespace coalesce
