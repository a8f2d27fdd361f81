// A reader of Clang's syntax trees. Clang's own, RecursiveASTVisitor, is a template of some thousand functions, which g++ compiles for each
// class that derives from it, in four seconds. One class does (tree_reader.cpp), and all readers derive from this one.
#pragma once

namespace clang {
class AddrLabelExpr;
class BinaryOperator;
class CallExpr;
class CXXRecordDecl;
class CompoundLiteralExpr;
class Decl;
class DeclRefExpr;
class DeclStmt;
class FieldDecl;
class FunctionDecl;
class GCCAsmStmt;
class ImplicitCastExpr;
class InitListExpr;
class LambdaExpr;
class Stmt;
class UnaryExprOrTypeTraitExpr;
class UnaryOperator;
class VarDecl;
}  // namespace clang

namespace coalesce {

class tree_reader {
 public:
  virtual ~tree_reader() = default;

  // Reads a declaration or a statement, and all within it. False if the reading has been ended.
  bool TraverseDecl(clang::Decl* d);
  bool TraverseStmt(clang::Stmt* s);

  // Whether the instantiations of templates are read too.
  [[nodiscard]] virtual bool reads_instantiations() const { return false; }
  // Whether a statement that declares, or a function of no class, is read.
  virtual bool enters_statement(clang::DeclStmt*) { return true; }
  virtual bool enters_function(clang::FunctionDecl*) { return true; }

  // Called for each node, before the nodes within it. A call that returns false ends the reading.
  virtual bool VisitAddrLabelExpr(clang::AddrLabelExpr*) { return true; }
  virtual bool VisitBinaryOperator(clang::BinaryOperator*) { return true; }
  virtual bool VisitCallExpr(clang::CallExpr*) { return true; }
  virtual bool VisitCXXRecordDecl(clang::CXXRecordDecl*) { return true; }
  virtual bool VisitCompoundLiteralExpr(clang::CompoundLiteralExpr*) { return true; }
  virtual bool VisitDeclRefExpr(clang::DeclRefExpr*) { return true; }
  virtual bool VisitDeclStmt(clang::DeclStmt*) { return true; }
  virtual bool VisitFieldDecl(clang::FieldDecl*) { return true; }
  virtual bool VisitFunctionDecl(clang::FunctionDecl*) { return true; }
  virtual bool VisitGCCAsmStmt(clang::GCCAsmStmt*) { return true; }
  virtual bool VisitImplicitCastExpr(clang::ImplicitCastExpr*) { return true; }
  virtual bool VisitInitListExpr(clang::InitListExpr*) { return true; }
  virtual bool VisitLambdaExpr(clang::LambdaExpr*) { return true; }
  virtual bool VisitUnaryExprOrTypeTraitExpr(clang::UnaryExprOrTypeTraitExpr*) { return true; }
  virtual bool VisitUnaryOperator(clang::UnaryOperator*) { return true; }
  virtual bool VisitVarDecl(clang::VarDecl*) { return true; }
};

}  // namespace coalesce
