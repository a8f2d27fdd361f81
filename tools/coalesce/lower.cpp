#include "lower.hpp"

#include "analysis.hpp"
#include "tree_reader.hpp"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/GlobalDecl.h>
#include <clang/Basic/CodeGenOptions.h>
#include <clang/CodeGen/ModuleBuilder.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>

#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Linker/Linker.h>

namespace coalesce {

namespace {

std::string qualified(clang::FunctionDecl const* f) { return f->getQualifiedNameAsString(); }

// Whether a call of `f` can promise that all threads reach it together: `f` allocates from the collective heap, or is a registered
// function.
bool takes_promise(options const& asked, clang::FunctionDecl const* f) {
  std::string const name = qualified(f);
  if (asked.registered.count(name) != 0) return true;
  if (f->getOverloadedOperator() == clang::OO_New || f->getOverloadedOperator() == clang::OO_Array_New) {
    auto const* tag = f->getNumParams() == 2 ? f->getParamDecl(1)->getType()->getAsTagDecl() : nullptr;
    return tag != nullptr && tag->getQualifiedNameAsString().rfind("gpuheap::coalesced::", 0) == 0;
  }
  return name.rfind("gpuheap::coalesced::", 0) == 0 && (name.ends_with("::malloc") || name.ends_with("::calloc"));
}

// A function whose call marks the end of a thread, at a `return` in a root. Without the mark, a branch that returns would seem to meet the
// other branches at the end of the root.
class thread_end {
 public:
  explicit thread_end(clang::ASTContext& context) : context_{context} {
    clang::FunctionProtoType::ExtProtoInfo info;
    info.ExtInfo = info.ExtInfo.withNoReturn(true);
    function_ = clang::FunctionDecl::Create(context, context.getTranslationUnitDecl(), {}, {}, &context.Idents.get(thread_ends),
                                            context.getFunctionType(context.VoidTy, {}, info), nullptr, clang::SC_Extern);
    function_->addAttr(clang::CUDADeviceAttr::CreateImplicit(context));
    function_->addAttr(clang::AsmLabelAttr::CreateImplicit(context, thread_ends, true));
  }

  void replace_returns(clang::Stmt* in) const {
    if (in == nullptr || clang::isa<clang::LambdaExpr>(in)) return;
    for (auto& child : in->children()) {
      if (auto* ended = clang::dyn_cast_or_null<clang::ReturnStmt>(child)) {
        child = instead_of(ended);
      } else {
        replace_returns(child);
      }
    }
  }

 private:
  [[nodiscard]] clang::Stmt* instead_of(clang::ReturnStmt* ended) const {
    auto* const result = ended->getRetValue();
    if (result != nullptr && !result->getType()->isScalarType() && !result->getType()->isVoidType()) return ended;
    auto const at = ended->getReturnLoc();
    auto* const name = clang::DeclRefExpr::Create(context_, {}, {}, function_, false, at, function_->getType(), clang::VK_LValue);
    auto* const pointer = clang::ImplicitCastExpr::Create(context_, context_.getPointerType(function_->getType()),
                                                          clang::CK_FunctionToPointerDecay, name, nullptr, clang::VK_PRValue, {});
    std::vector<clang::Stmt*> both;
    if (result != nullptr) both.push_back(result);
    both.push_back(clang::CallExpr::Create(context_, pointer, {}, context_.VoidTy, clang::VK_PRValue, at, {}));
    return clang::CompoundStmt::Create(context_, both, {}, at, at);
  }

  clang::ASTContext& context_;
  clang::FunctionDecl* function_;
};

bool is_root(options const& asked, clang::FunctionDecl const* f) { return is_kernel(f) || asked.roots.count(qualified(f)) != 0; }

// Passes all declarations on to Clang's code generator. Before that, marks the returns of roots, and makes Clang emit virtual functions,
// although no call names them.
class preparation : public clang::ASTConsumer, public tree_reader {
 public:
  preparation(options const& asked, clang::CodeGenerator* generator, std::set<std::string>& virtuals)
      : asked_{asked}, generator_{generator}, virtuals_{virtuals} {}

  void Initialize(clang::ASTContext& context) override {
    end_ = std::make_unique<thread_end>(context);
    generator_->Initialize(context);
  }
  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    for (auto* d : group) TraverseDecl(d);
    return generator_->HandleTopLevelDecl(group);
  }
  void HandleInlineFunctionDefinition(clang::FunctionDecl* f) override { generator_->HandleInlineFunctionDefinition(f); }
  void HandleInterestingDecl(clang::DeclGroupRef group) override { generator_->HandleInterestingDecl(group); }
  void HandleTagDeclDefinition(clang::TagDecl* d) override { generator_->HandleTagDeclDefinition(d); }
  void HandleTagDeclRequiredDefinition(clang::TagDecl const* d) override { generator_->HandleTagDeclRequiredDefinition(d); }
  void HandleCXXImplicitFunctionInstantiation(clang::FunctionDecl* d) override { generator_->HandleCXXImplicitFunctionInstantiation(d); }
  void HandleCXXStaticMemberVarInstantiation(clang::VarDecl* d) override { generator_->HandleCXXStaticMemberVarInstantiation(d); }
  void CompleteTentativeDefinition(clang::VarDecl* d) override { generator_->CompleteTentativeDefinition(d); }
  void AssignInheritanceModel(clang::CXXRecordDecl* d) override { generator_->AssignInheritanceModel(d); }
  void HandleVTable(clang::CXXRecordDecl* d) override { generator_->HandleVTable(d); }
  void HandleTranslationUnit(clang::ASTContext& context) override {
    for (auto const* f : methods_) {
      if (auto* made = llvm::dyn_cast_or_null<llvm::Function>(generator_->GetAddrOfGlobal(clang::GlobalDecl{f}, true)))
        virtuals_.insert(made->getName().str());
    }
    generator_->HandleTranslationUnit(context);
  }

  [[nodiscard]] bool reads_instantiations() const override { return true; }
  bool VisitFunctionDecl(clang::FunctionDecl* f) override {
    if (f->isDependentContext() || !f->doesThisDeclarationHaveABody()) return true;
    if (asked_.census && is_root(asked_, f) && prepared_.insert(f).second) end_->replace_returns(f->getBody());
    auto const* method = clang::dyn_cast<clang::CXXMethodDecl>(f);
    bool const structor = clang::isa<clang::CXXConstructorDecl>(f) || clang::isa<clang::CXXDestructorDecl>(f);
    if (method != nullptr && method->isVirtual() && !structor && is_device(f) && analysis::is_users(f)) methods_.insert(method);
    return true;
  }

 private:
  options const& asked_;
  std::unique_ptr<clang::CodeGenerator> generator_;
  std::set<std::string>& virtuals_;
  std::unique_ptr<thread_end> end_;
  std::set<clang::FunctionDecl const*> prepared_;
  std::set<clang::CXXMethodDecl const*> methods_;
};

// Emits the module of one source, without optimising it, and records the kinds of its functions.
class emission : public clang::ASTFrontendAction {
 public:
  emission(options const& asked, lowered& to, std::unique_ptr<llvm::Module>& module) : asked_{asked}, to_{to}, module_{module} {}

 protected:
  // Clang must not exploit undefined behaviour, because nvcc's optimizer follows other rules than LLVM's.
  bool BeginInvocation(clang::CompilerInstance& compiler) override {
    auto& how = compiler.getCodeGenOpts();
    how.OptimizationLevel = 0;
    how.DisableO0ImplyOptNone = true;
    how.RelaxedAliasing = true;
    how.StrictReturn = false;
    how.setFiniteLoops(clang::CodeGenOptions::FiniteLoopsKind::Never);
    how.NullPointerIsValid = true;
    how.setDebugInfo(llvm::codegenoptions::DebugLineTablesOnly);
    how.DebugColumnInfo = true;
    how.EmitVersionIdentMetadata = false;
    compiler.getLangOpts().setSignedOverflowBehavior(clang::LangOptions::SOB_Defined);
    return true;
  }

  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef file) override {
    generator_ = clang::CreateLLVMCodeGen(compiler.getDiagnostics(), file, &compiler.getVirtualFileSystem(), compiler.getHeaderSearchOpts(),
                                          compiler.getPreprocessorOpts(), compiler.getCodeGenOpts(), *to_.context);
    return std::make_unique<preparation>(asked_, generator_, virtuals_);
  }

  void EndSourceFileAction() override {
    if (generator_->GetModule() == nullptr || getCompilerInstance().getDiagnostics().hasErrorOccurred()) return;
    for (auto& f : *generator_->GetModule()) {
      auto const* declared = generator_->GetDeclForMangledName(f.getName());
      auto const* what = declared == nullptr ? nullptr : declared->getAsFunction();
      if (what == nullptr) continue;
      note(f, what);
    }
    module_.reset(generator_->ReleaseModule());
  }

 private:
  void note(llvm::Function& f, clang::FunctionDecl const* what) {
    bool const promises = takes_promise(asked_, what);
    if (promises && !f.isDeclaration()) f.deleteBody();
    if (f.isDeclaration()) {
      auto& known = to_.outsides[f.getName().str()];
      known.name = qualified(what);
      known.allocates = promises;
      known.users = !promises && analysis::is_users(what) && !what->isImplicit();
      for (unsigned i = 0; i < what->getNumParams(); ++i) {
        auto const target = what->getParamDecl(i)->getType()->getPointeeType();
        if (!target.isNull() && target.isConstQualified()) known.reads.insert(i);
      }
    } else if (is_root(asked_, what)) {
      to_.roots.insert(f.getName().str());
    } else if (virtuals_.count(f.getName().str()) != 0) {
      f.setLinkage(llvm::GlobalValue::WeakAnyLinkage);  // keeps the function, because a virtual call may reach it
    }
  }

  options const& asked_;
  lowered& to_;
  std::unique_ptr<llvm::Module>& module_;
  clang::CodeGenerator* generator_ = nullptr;
  std::set<std::string> virtuals_;
};

// Inlines all functions into the roots, and turns variables into values. Calls with a promise stay where they are.
void simplify(lowered& l) {
  for (auto& f : *l.module) {
    if (f.getName() == thread_ends) f.addFnAttr(llvm::Attribute::NoMerge);
    if (f.isDeclaration()) continue;
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    if (l.roots.count(f.getName().str()) != 0) continue;
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    f.setComdat(nullptr);
    if (f.hasWeakAnyLinkage()) continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  // The passes run twice, because the target of a call through a pointer or a table may be known only after the first time.
  std::string const once =
      "always-inline,function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,gvn,sroa,instcombine<no-verify-fixpoint>,"
      "simplifycfg,adce),globaldce";
  // LLVM's interface for C: g++ takes ten seconds to read the header of its PassBuilder.
  LLVMPassBuilderOptionsRef const defaults = LLVMCreatePassBuilderOptions();
  llvm::cantFail(llvm::unwrap(LLVMRunPasses(llvm::wrap(l.module.get()), (once + "," + once).c_str(), nullptr, defaults)));
  LLVMDisposePassBuilderOptions(defaults);
}

// Several sources may define one function or variable, as when a header defines it without `inline`: without relocatable device code, each
// source is a device program of its own. Makes those of `module` that `all` defines too local to `module`.
void keep_apart(llvm::Module& module, llvm::Module const& all, lowered& l) {
  for (auto& one : module.global_values()) {
    auto const* other = all.getNamedValue(one.getName());
    if (one.isDeclaration() || !one.hasExternalLinkage() || other == nullptr || other->isDeclaration() || !other->hasExternalLinkage())
      continue;
    if (auto* f = llvm::dyn_cast<llvm::Function>(&one); f != nullptr && l.roots.count(f->getName().str()) != 0) {
      std::string name = f->getName().str();
      while (all.getNamedValue(name) != nullptr || (name != f->getName() && module.getNamedValue(name) != nullptr)) name += '\'';
      f->setName(name);
      l.roots.insert(name);
      continue;
    }
    one.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
}

}  // namespace

lowered lower(options const& asked, std::vector<std::string> const& sources, std::map<std::string, std::string> const& texts, language in) {
  lowered result;
  result.context = std::make_unique<llvm::LLVMContext>();
  // Without a handler, LLVM ends the process at an error.
  result.context->setDiagnosticHandlerCallBack([](llvm::DiagnosticInfo const*, void*) {});
  std::unique_ptr<llvm::Module> all;
  for (auto const& source : sources) {
    std::unique_ptr<llvm::Module> module;
    auto errors = run_on(asked, source, texts, in, std::make_unique<emission>(asked, result, module));
    if (module == nullptr && errors.empty())
      errors.push_back({severity::error, "E1", "Clang cannot read this file", {source, 0, 1, 1}, {}});
    result.errors.insert(result.errors.end(), errors.begin(), errors.end());
    if (module == nullptr) continue;
    if (all != nullptr) keep_apart(*module, *all, result);
    if (all == nullptr) {
      all = std::move(module);
    } else if (llvm::Linker::linkModules(*all, std::move(module))) {
      result.errors.push_back(
          {severity::error, "E1", "this file's device code does not link with that of the others", {source, 0, 1, 1}, {}});
    }
  }
  if (!result.errors.empty() || all == nullptr) return result;
  result.module = std::move(all);
  simplify(result);
  return result;
}

}  // namespace coalesce
