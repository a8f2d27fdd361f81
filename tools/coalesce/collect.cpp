// Collects the functions of a translation unit. For each, it finds the places where a parameter can be added, or the reason why none can.
#include "analysis.hpp"
#include "flow.hpp"
#include "frontend.hpp"
#include "tree_reader.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/Frontend/ASTUnit.h>
#include <clang/Index/USRGeneration.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <cctype>

namespace coalesce {

using namespace clang;

bool is_kernel(FunctionDecl const* f) { return f->hasAttr<CUDAGlobalAttr>(); }
bool is_device(FunctionDecl const* f) { return is_kernel(f) || f->hasAttr<CUDADeviceAttr>(); }

namespace {

FunctionDecl const* pattern_of(FunctionDecl const* f) {
  if (auto const* pattern = f->getTemplateInstantiationPattern()) return pattern;
  return f;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string result;
  for (char const c : text) {
    if (c != ' ' || result.empty() || result.back() != ' ') result += c;
  }
  return result;
}

// Whether `text` contains `word` as a whole word.
bool has_word(std::string const& text, std::string const& word) {
  auto const in_word = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && in_word(at - 1)) && !in_word(at + word.size())) return true;
  }
  return false;
}

// Whether the code at an offset is compiled for the device alone, or for the host alone: a preprocessor condition around it tests
// __CUDA_ARCH__.
bool depends_on_pass(std::string const& text, unsigned offset) {
  if (text.find("__CUDA_ARCH__") == std::string::npos) return false;
  std::vector<bool> asks;  // for each condition around the place, whether it tests __CUDA_ARCH__
  for (std::size_t at = 0; at < offset && at != std::string::npos;) {
    auto const end = text.find('\n', at);
    auto const begin = text.find_first_not_of(" \t", at);
    std::string line = begin < end && text[begin] == '#' ? text.substr(begin + 1, end - begin - 1) : "";
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.rfind("if", 0) == 0) {
      asks.push_back(has_word(line, "__CUDA_ARCH__"));
    } else if (line.rfind("elif", 0) == 0 && !asks.empty()) {
      asks.back() = asks.back() || has_word(line, "__CUDA_ARCH__");
    } else if (line.rfind("endif", 0) == 0 && !asks.empty()) {
      asks.pop_back();
    }
    at = end == std::string::npos ? end : end + 1;
  }
  return std::find(asks.begin(), asks.end(), true) != asks.end();
}

}  // namespace

std::string text_of(ASTContext const& context, SourceRange range) {
  return one_line(Lexer::getSourceText(CharSourceRange::getTokenRange(range), context.getSourceManager(), context.getLangOpts()).str());
}

class collector : public tree_reader {
 public:
  collector(analysis& a, ASTContext& context, unsigned unit) : a_{a}, context_{context}, unit_{unit} {}
  [[nodiscard]] bool reads_instantiations() const override { return true; }

  bool VisitCallExpr(CallExpr* e) override {
    called_.insert(e->getCallee()->IgnoreParenImpCasts());
    return true;
  }
  bool VisitDeclRefExpr(DeclRefExpr* e) override {
    auto const* f = dyn_cast<FunctionDecl>(e->getDecl());
    if (f != nullptr && is_device(f) && called_.count(e) == 0) address_taken(f, e->getExprLoc());
    return true;
  }
  // The visitor skips the constructors that the compiler writes. They run the default member initializers, which may allocate.
  bool VisitCXXRecordDecl(CXXRecordDecl* record) override {
    if (!record->hasDefinition() || record->isDependentContext() || record->isLambda()) return true;
    for (auto* constructor : record->ctors()) {
      if (constructor->isImplicit() && !constructor->isCopyOrMoveConstructor()) VisitFunctionDecl(constructor);
    }
    return true;
  }
  bool VisitLambdaExpr(LambdaExpr* e) override {
    // A lambda's class is implicit, so the visitor does not reach its functions by itself.
    if (auto* generic = e->getLambdaClass()->getDependentLambdaCallOperator()) {
      for (auto* instance : generic->getAsFunction()->getDescribedFunctionTemplate()->specializations()) VisitFunctionDecl(instance);
    } else {
      VisitFunctionDecl(e->getCallOperator());
    }
    return true;
  }
  bool VisitFunctionDecl(FunctionDecl* f) override {
    if (f->isImplicit() && !isa<CXXMethodDecl>(f)) return true;
    if (f->isMain() && f->doesThisDeclarationHaveABody()) return collect_main(f), true;
    if (!is_device(f) || !a_.is_users(f)) return true;
    auto& unit = unit_of(f);
    if (f->doesThisDeclarationHaveABody()) {
      auto const [before, is_new] = a_.definitions_.emplace(unit.key, f);
      if (before->second->isDependentContext()) before->second = f;
      if (!is_new) require_same(before->second, f);
      if (!f->isDependentContext()) a_.to_analyse_.push_back(f);
    }
    if (f->getTemplateInstantiationPattern() == nullptr || f == pattern_of(f)) declare(unit, f);
    return true;
  }

 private:
  function_unit& unit_of(FunctionDecl const* f) {
    std::string const key = a_.key_of(f);
    auto& unit = a_.found.functions[key];
    if (unit.key.empty()) {
      unit.key = key;
      auto const* method = dyn_cast<CXXMethodDecl>(f);
      unit.name = method != nullptr && method->getParent()->isLambda() ? "the lambda" : f->getQualifiedNameAsString();
      unit.root = is_kernel(f) || a_.asked.roots.count(unit.name) != 0;
      unit.at = place_of(context_.getSourceManager(), f->getLocation());
    }
    return unit;
  }

  // Reports an error if the two definitions of one name are in two files: the files given are then several programs.
  void require_same(FunctionDecl const* a, FunctionDecl const* b) {
    place const first = place_of(a->getASTContext().getSourceManager(), pattern_of(a)->getLocation());
    place const second = place_of(context_.getSourceManager(), pattern_of(b)->getLocation());
    if (first.file == second.file) return;
    a_.found.diagnostics.push_back(
        {severity::error,
         "E6",
         b->getQualifiedNameAsString() + " has a second definition: the files given are not one program. Run once for each program",
         second,
         {{first, "the first one"}}});
  }

  void address_taken(FunctionDecl const* f, SourceLocation at) {
    if (!a_.is_users(f) || is_kernel(f)) return;
    auto& unit = unit_of(f);
    if (unit.fixed.empty() || unit.fixed_at.file.empty()) {
      unit.fixed = "its address is taken";
      unit.fixed_at = place_of(context_.getSourceManager(), at);
    }
  }

  void fix(function_unit& unit, std::string const& why, FunctionDecl const* f) {
    if (!unit.fixed.empty()) return;
    unit.fixed = why;
    unit.fixed_at = place_of(context_.getSourceManager(), f->getLocation());
  }

  // Records the place for a new parameter of `f`, or the reason why `f` cannot get one.
  void declare(function_unit& unit, FunctionDecl const* f) {
    auto const* method = dyn_cast<CXXMethodDecl>(f);
    if (method != nullptr && method->getParent()->isLambda()) fix(unit, "it is a lambda", f);
    if (method != nullptr && method->isVirtual()) fix(unit, "it is virtual", f);
    if (isa<CXXConstructorDecl>(f) || isa<CXXDestructorDecl>(f) || isa<CXXConversionDecl>(f) || f->isOverloadedOperator())
      fix(unit, "it is an operator, a constructor or a destructor", f);
    if (auto const at = place_of(context_.getSourceManager(), f->getLocation()); a_.found.texts.count(at.file) != 0) {
      if (depends_on_pass(a_.found.texts.at(at.file), at.offset))
        fix(unit, "its declaration depends on __CUDA_ARCH__, and the host may see another one", f);
    }
    if (f->isVariadic()) fix(unit, "it takes a variable number of arguments", f);
    if (f->isExternC()) fix(unit, "it is extern \"C\"", f);
    if (f->getFriendObjectKind() != Decl::FOK_None) fix(unit, "it is declared as a friend", f);
    if (f->getTemplateSpecializationKind() == TSK_ExplicitSpecialization) fix(unit, "it is an explicit specialization", f);
    if (f->getNumParams() >= this_object) fix(unit, "it has too many parameters", f);
    if (f->getNumParams() != 0 && f->getParamDecl(f->getNumParams() - 1)->isParameterPack()) fix(unit, "it takes a parameter pack", f);
    if (auto const* described = f->getDescribedFunctionTemplate()) {
      for (auto const* instance : described->specializations()) {
        auto const kind = instance->getTemplateSpecializationKind();
        if (kind == TSK_ExplicitSpecialization || kind == TSK_ExplicitInstantiationDefinition ||
            kind == TSK_ExplicitInstantiationDeclaration)
          fix(unit, "it is specialized or instantiated explicitly", instance);
      }
    }
    for (auto const* other : f->getDeclContext()->lookup(f->getDeclName())) {
      auto const* overload = dyn_cast<FunctionDecl>(other->getAsFunction() == nullptr ? other : other->getAsFunction());
      if (overload == nullptr || overload->getNumParams() <= f->getNumParams()) continue;
      if (overload->getNumParams() == f->getNumParams() + 1 && overload->getParamDecl(f->getNumParams())->getType()->isBooleanType())
        fix(unit, "an overload has the same parameters and a bool", overload);
      // With a bool behind its parameters, `f` could be chosen for a call of the other function, perhaps silently.
      if (overload->getMinRequiredArguments() <= f->getNumParams() + 1)
        fix(unit, "an overload can be called with one more argument", overload);
    }
    declaration here;
    here.at = place_of(context_.getSourceManager(), f->getLocation());
    here.unit = unit_;
    here.has_parameters = f->getNumParams() != 0;
    auto const type = f->getFunctionTypeLoc();
    if (!type) return;
    here.close = stretch_of(context_, a_.found, SourceRange{type.getRParenLoc()});
    if (f->getLocation().isMacroID() || here.close.file.empty()) fix(unit, "a macro writes its declaration", f);
    here.close.length = 0;
    if (!here.has_parameters && type.getLParenLoc().getLocWithOffset(1) != type.getRParenLoc()) {
      auto const begin = type.getLParenLoc().getLocWithOffset(1);
      place const from = place_of(context_.getSourceManager(), begin);
      here.only_void = {from.file, from.offset, here.close.offset - from.offset, here.close.editable};
    }
    unit.declarations.push_back(here);
    if (f->doesThisDeclarationHaveABody()) {
      unit.at = here.at;
      std::string const text = text_of(context_, f->getSourceRange());
      while (has_word(text, unit.parameter_name)) unit.parameter_name += '_';
    }
  }

  void collect_main(FunctionDecl* f) {
    auto const* whole = dyn_cast<CXXTryStmt>(f->getBody());  // `int main() try { ... } catch ...`
    auto const* body = whole == nullptr ? dyn_cast<CompoundStmt>(f->getBody()) : whole->getTryBlock();
    if (body == nullptr || !a_.is_users(f)) return;
    main_function main;
    main.at = place_of(context_.getSourceManager(), f->getLocation());
    main.after_brace = stretch_of(context_, a_.found, SourceRange{body->getLBracLoc()});
    main.after_brace.offset += 1;
    main.after_brace.length = 0;
    main.before_end = stretch_of(context_, a_.found, SourceRange{body->getRBracLoc()});
    main.before_end.length = 0;
    main.falls_off_end = body->body_empty() || !isa<ReturnStmt>(body->body_back());
    find_returns(whole == nullptr ? static_cast<Stmt const*>(body) : whole, body, main);
    main.object = find_object(f->getBody());
    a_.found.mains.push_back(main);
  }

  // The place of a variable of main whose destructor is the program's own code, and may launch kernels that use the heap. An empty place if
  // there is none.
  place find_object(Stmt const* s) {
    if (s == nullptr || isa<LambdaExpr>(s)) return {};
    if (auto const* declared = dyn_cast<DeclStmt>(s)) {
      for (auto const* d : declared->decls()) {
        auto const* v = dyn_cast<VarDecl>(d);
        if (v != nullptr && runs_own_code(v->getType(), 0)) return place_of(context_.getSourceManager(), v->getLocation());
      }
    }
    for (auto const* child : s->children()) {
      if (auto const found = find_object(child); !found.file.empty()) return found;
    }
    return {};
  }
  // Whether the destructor of an object of this type runs code of the program: the type is a class of the program with a destructor that
  // does something, or, as std::unique_ptr<T> and std::vector<T>, a class of a library that is given one.
  bool runs_own_code(QualType type, unsigned depth) {
    constexpr unsigned deepest = 8;
    auto const* record = type->isReferenceType() ? nullptr : type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
    if (record == nullptr || depth > deepest || !record->hasDefinition() || record->hasTrivialDestructor()) return false;
    if (a_.is_users(record)) return true;
    auto const* special = dyn_cast<ClassTemplateSpecializationDecl>(record);
    if (special == nullptr) return false;
    for (auto const& argument : special->getTemplateArgs().asArray()) {
      if (argument.getKind() == TemplateArgument::Type && runs_own_code(argument.getAsType(), depth + 1)) return true;
    }
    return false;
  }

  void find_returns(Stmt const* s, CompoundStmt const* outermost, main_function& main, Stmt const* parent = nullptr) {
    if (s == nullptr || isa<LambdaExpr>(s)) return;
    if (auto const* ended = dyn_cast<ReturnStmt>(s)) {
      main_return one;
      one.at = place_of(context_.getSourceManager(), ended->getBeginLoc());
      one.whole = stretch_of(context_, a_.found, ended->getSourceRange());
      if (auto const* result = ended->getRetValue()) {
        one.result = text_of(context_, result->getSourceRange());
        one.constant = result->isEvaluatable(context_);
      }
      one.braced = isa_and_nonnull<CompoundStmt>(parent);
      one.conditional = parent != outermost;
      main.returns.push_back(one);
    }
    if (auto const* called = dyn_cast<CallExpr>(s)) {
      auto const* callee = called->getDirectCallee();
      if (callee != nullptr && callee->getQualifiedNameAsString().rfind("gpuheap::coalesced::init", 0) == 0) main.has_init = true;
    }
    for (auto const* child : s->children()) find_returns(child, outermost, main, s);
  }

  analysis& a_;
  ASTContext& context_;
  unsigned unit_;
  std::set<Expr const*> called_;
};

std::string analysis::key_of(FunctionDecl const* f) const {
  llvm::SmallString<128> key;
  if (index::generateUSRForDecl(pattern_of(f)->getCanonicalDecl(), key) || isa<CXXMethodDecl>(f)) {
    // Lambdas have no names that distinguish them, so the key contains their places.
    place const at = place_of(f->getASTContext().getSourceManager(), pattern_of(f)->getCanonicalDecl()->getLocation());
    return key.str().str() + "@" + at.file + ":" + std::to_string(at.offset);
  }
  return key.str().str();
}

FunctionDecl const* analysis::definition_of(FunctionDecl const* f) const {
  FunctionDecl const* defined = nullptr;
  if (f->hasBody(defined) && !defined->isDependentContext()) return defined;
  auto const other = definitions_.find(key_of(f));
  return other == definitions_.end() || other->second->isDependentContext() ? nullptr : other->second;
}

bool analysis::is_users(Decl const* d) {
  auto const& sources = d->getASTContext().getSourceManager();
  auto const at = sources.getExpansionLoc(d->getLocation());
  if (at.isInvalid() || sources.isInSystemHeader(at) || !sources.getFileEntryRefForID(sources.getFileID(at))) return false;
  for (auto const* context = d->getDeclContext(); context != nullptr; context = context->getParent()) {
    auto const* space = dyn_cast<NamespaceDecl>(context);
    if (space != nullptr && space->getName() == "gpuheap" && space->getParent()->getRedeclContext()->isTranslationUnit()) return false;
  }
  return !is_stub(place_of(sources, at).file);
}

int analysis::cause_at(ASTContext const& context, SourceLocation at, cause_kind kind, std::string const& text, int from) {
  place const where = place_of(context.getSourceManager(), at);
  auto const [number, is_new] =
      cause_numbers_.emplace(where.file + ':' + std::to_string(where.offset) + ':' + text, static_cast<int>(found.causes.size()));
  if (is_new) found.causes.push_back({where, text, from, kind});
  return number->second;
}

void analysis::collect(ASTUnit& unit, unsigned number) {
  auto& context = unit.getASTContext();
  auto const& sources = context.getSourceManager();
  collector visitor{*this, context, number};
  for (auto* declared : context.getTranslationUnitDecl()->decls()) {
    auto const at = sources.getExpansionLoc(declared->getLocation());
    if (at.isValid() && !sources.isInSystemHeader(at)) visitor.TraverseDecl(declared);
  }
  for (auto it = sources.fileinfo_begin(); it != sources.fileinfo_end(); ++it) {
    auto const id = sources.translateFile(it->first);
    std::string const path = path_of(it->first.getName().str());
    if (id.isInvalid() || sources.isInSystemHeader(sources.getLocForStartOfFile(id)) || is_stub(path)) continue;
    found.texts.emplace(path, sources.getBufferData(id).str());
  }
}

void analysis::run() {
  for (auto const* f : to_analyse_) (void)facts_of(f);
  for (auto const* f : to_analyse_) {
    auto const& facts = facts_.at(f);
    if (facts != nullptr) found.functions[facts->key].instances.push_back(*facts);
  }
}

function_facts const* analysis::facts_of(FunctionDecl const* f) {
  auto const* defined = definition_of(f);
  constexpr unsigned deepest = 32;  // the longest chain of calls that is followed
  if (defined == nullptr || depth_ > deepest) return nullptr;
  auto const [entry, is_new] = facts_.try_emplace(defined);
  if (is_new) {
    ++depth_;
    auto facts = std::make_unique<function_facts>(flow{*this, defined}.run());
    --depth_;
    facts_[defined] = std::move(facts);
  }
  return facts_[defined].get();
}

}  // namespace coalesce
