#include "tree_reader.hpp"

#include <clang/AST/RecursiveASTVisitor.h>

namespace coalesce {

using namespace clang;

namespace {

class visitor : public RecursiveASTVisitor<visitor> {
  using base = RecursiveASTVisitor<visitor>;

 public:
  explicit visitor(tree_reader& reader) : reader_{reader} {}
  [[nodiscard]] bool shouldVisitTemplateInstantiations() const { return reader_.reads_instantiations(); }
  bool TraverseDeclStmt(DeclStmt* s) { return !reader_.enters_statement(s) || base::TraverseDeclStmt(s); }
  bool TraverseFunctionDecl(FunctionDecl* f) { return !reader_.enters_function(f) || base::TraverseFunctionDecl(f); }
  bool VisitAddrLabelExpr(AddrLabelExpr* seen) { return reader_.VisitAddrLabelExpr(seen); }
  bool VisitBinaryOperator(BinaryOperator* seen) { return reader_.VisitBinaryOperator(seen); }
  bool VisitCallExpr(CallExpr* seen) { return reader_.VisitCallExpr(seen); }
  bool VisitCXXRecordDecl(CXXRecordDecl* seen) { return reader_.VisitCXXRecordDecl(seen); }
  bool VisitCompoundLiteralExpr(CompoundLiteralExpr* seen) { return reader_.VisitCompoundLiteralExpr(seen); }
  bool VisitDeclRefExpr(DeclRefExpr* seen) { return reader_.VisitDeclRefExpr(seen); }
  bool VisitDeclStmt(DeclStmt* seen) { return reader_.VisitDeclStmt(seen); }
  bool VisitFieldDecl(FieldDecl* seen) { return reader_.VisitFieldDecl(seen); }
  bool VisitFunctionDecl(FunctionDecl* seen) { return reader_.VisitFunctionDecl(seen); }
  bool VisitGCCAsmStmt(GCCAsmStmt* seen) { return reader_.VisitGCCAsmStmt(seen); }
  bool VisitImplicitCastExpr(ImplicitCastExpr* seen) { return reader_.VisitImplicitCastExpr(seen); }
  bool VisitInitListExpr(InitListExpr* seen) { return reader_.VisitInitListExpr(seen); }
  bool VisitLambdaExpr(LambdaExpr* seen) { return reader_.VisitLambdaExpr(seen); }
  bool VisitUnaryExprOrTypeTraitExpr(UnaryExprOrTypeTraitExpr* seen) { return reader_.VisitUnaryExprOrTypeTraitExpr(seen); }
  bool VisitUnaryOperator(UnaryOperator* seen) { return reader_.VisitUnaryOperator(seen); }
  bool VisitVarDecl(VarDecl* seen) { return reader_.VisitVarDecl(seen); }

 private:
  tree_reader& reader_;
};

}  // namespace

bool tree_reader::TraverseDecl(Decl* d) { return visitor{*this}.TraverseDecl(d); }
bool tree_reader::TraverseStmt(Stmt* s) { return visitor{*this}.TraverseStmt(s); }

}  // namespace coalesce
