// Turns all functions of a C program, including main, into device functions, and replaces their calls of the C library.
#include "c_library.hpp"
#include "frontend.hpp"
#include "translator.hpp"
#include "tree_reader.hpp"

#include <clang/AST/ParentMapContext.h>
#include <clang/Analysis/CFG.h>
#include <clang/Lex/Lexer.h>

#include <cstdint>

namespace coalesce {

using namespace clang;

namespace {

class function_reader : public tree_reader {
 public:
  function_reader(translator& t, ASTContext& context, unit_variables const& variables)
      : t_{t},
        context_{context},
        sources_{context.getSourceManager()},
        variables_{variables},
        conversions_{t, context},
        arrays_{t, context, variables} {}

  bool enters_statement(DeclStmt* s) override {
    place const begin = t_.at(context_, s->getBeginLoc());
    if (variables_.moved.count({begin.file, begin.offset}) != 0) return false;  // its text has moved, unchanged (rank_variables.cpp)
    auto const parents = context_.getParents(*s);
    bool const in_block = !parents.empty() && (parents[0].get<CompoundStmt>() != nullptr || parents[0].get<SwitchCase>() != nullptr);
    arrays_.look_at(s, in_block);
    return true;
  }
  bool enters_function(FunctionDecl* f) override {
    if (!f->isImplicit() && f->doesThisDeclarationHaveABody()) inside_ = f;
    return !f->isImplicit();
  }

  bool VisitFunctionDecl(FunctionDecl* f) override {
    place const at = t_.at(context_, f->getLocation());
    std::string const name = f->getNameAsString();
    if (is_of_library(f)) return forget_declaration(f), true;
    if (f->isVariadic() && f->hasPrototype())
      t_.error(
          "M6", at,
          "`" + name + "` takes a variable number of arguments, which device code does not support: give it a fixed number, or an array");
    if (!f->hasPrototype() && f->getNumParams() != 0)
      t_.error("M5", at, "C++ does not have this old form of definition: write the types into the parentheses of `" + name + "`");
    refuse_type(f->getReturnType(), at);
    if (f->isMain() && f->doesThisDeclarationHaveABody()) return translate_main(f), true;
    (void)t_.insert_before(context_, f->getBeginLoc(), "GPUHEAP_FN ", "function");
    if (f->doesThisDeclarationHaveABody()) return_at_end(f), check_stack(f);
    return true;
  }

  // Whether `f` is the program's own declaration of a function of the C library.
  [[nodiscard]] bool is_of_library(FunctionDecl const* f) const {
    std::string const name = f->getNameAsString();
    return t_.defined.count(name) == 0 && availability_of(name) == availability::renamed;
  }
  // Removes such a declaration.
  void forget_declaration(FunctionDecl const* f) {
    auto const where = stretch_of(context_, t_.found, f->getSourceRange());
    std::string const& text = where.file.empty() ? "" : t_.found.texts.at(where.file);
    auto const after = text.find_first_not_of(" \t", where.offset + where.length);
    if (!where.editable || after == std::string::npos || text[after] != ';')
      return;  // one of several declarators: harmless, or Clang reports it
    t_.changes.replace({where.file, where.offset, where.length, true}, "");
  }

  // Reports local variables that do not fit a GPU thread's stack.
  void check_stack(FunctionDecl const* f) {
    std::uint64_t all = 0, most = 0;
    VarDecl const* largest = nullptr;
    for (auto const* d : f->decls()) {
      auto const* v = dyn_cast<VarDecl>(d);
      if (v == nullptr || !v->hasLocalStorage() || isa<ParmVarDecl>(v)) continue;
      auto const bytes = local_bytes(context_, v->getType());
      all += bytes;
      if (bytes > most) most = bytes, largest = v;
    }
    auto& frame = t_.frames[frame_of(f)];
    frame.bytes = all;
    frame.at = t_.at(context_, f->getLocation());
    if (all <= stack_limit || largest == nullptr) return;
    t_.error("M5", t_.at(context_, largest->getLocation()),
             "the local variables of `" + f->getNameAsString() + "` take " + std::to_string(all) + " bytes, `" +
                 largest->getNameAsString() + "` alone " + std::to_string(most) + ", and the stack of a GPU thread has " +
                 std::to_string(stack_limit) + " at most: use malloc and free, or make it static");
  }

  // The key of `f` in translator::frames. Static functions of one name in several files have different keys.
  [[nodiscard]] std::string frame_of(FunctionDecl const* f) const {
    auto const name = f->getNameAsString();
    return f->isExternallyVisible() ? name : name + " in " + t_.at(context_, f->getLocation()).file;
  }

  // In C a function may reach its end without a return if no caller uses the value. In C++ that is undefined behaviour, so a `return` of
  // some value is inserted.
  void return_at_end(FunctionDecl const* f) {
    auto const* body = dyn_cast<CompoundStmt>(f->getBody());
    if (body == nullptr || f->getReturnType()->isVoidType() || f->isNoReturn()) return;
    if (!body->body_empty() && isa<ReturnStmt>(body->body_back())) return;
    if (!may_end(f)) return;
    auto const type = f->getReturnType().getUnqualifiedType();
    auto const* record = type->getAsRecordDecl();
    auto const* alias = record == nullptr ? nullptr : record->getTypedefNameForAnonDecl();
    std::string const name = alias != nullptr    ? alias->getNameAsString()
                             : record != nullptr ? record->getNameAsString()
                                                 : type.getAsString(PrintingPolicy{context_.getLangOpts()});
    bool const nameless = name.empty() || name.find("unnamed") != std::string::npos;
    if (nameless)
      return t_.error("M5", t_.at(context_, f->getLocation()),
                      "the end of this function is reached without a return, which C++ forbids: write one");
    std::string const nothing = type->isPointerType()      ? "NULL"
                                : type->isEnumeralType()   ? "(" + name + ")0"
                                : type->isArithmeticType() ? "0"
                                                           : name + "{}";
    (void)t_.insert_before(context_, body->getRBracLoc(), "  return " + nothing + ";\n", "end of a function");
  }

  // Whether control may reach the end of `f` without a return.
  bool may_end(FunctionDecl const* f) {
    CFG::BuildOptions how;
    how.PruneTriviallyFalseEdges = true;
    auto const graph = CFG::buildCFG(f, f->getBody(), &context_, how);
    if (graph == nullptr) return true;
    for (auto const& before : graph->getExit().preds()) {
      CFGBlock const* block = before;
      if (block == nullptr || block->hasNoReturnElement()) continue;
      bool returns = false;
      for (auto const& element : *block) {
        auto const statement = element.getAs<CFGStmt>();
        returns = returns || (statement && isa<ReturnStmt>(statement->getStmt()));
      }
      bool const reached = block == &graph->getEntry() || block->pred_size() != 0;
      if (!returns && reached) return true;
    }
    return false;
  }

  bool VisitVarDecl(VarDecl* v) override {
    place const at = t_.at(context_, v->getLocation());
    if (auto const* parameter = dyn_cast<ParmVarDecl>(v)) arrays_.look_at(parameter);
    refuse_type(v->getType(), at);
    return true;
  }
  bool VisitFieldDecl(FieldDecl* f) override {
    refuse_type(f->getType(), t_.at(context_, f->getLocation()));
    return true;
  }

  bool VisitDeclRefExpr(DeclRefExpr* e) override {
    if (auto const* v = dyn_cast<VarDecl>(e->getDecl())) return read_variable(e, v), true;
    auto const* f = dyn_cast<FunctionDecl>(e->getDecl());
    if (f == nullptr || handled_.count(e) != 0) return true;
    std::string const name = f->getNameAsString();
    bool const without_declaration = f->isImplicit() && t_.defined.count(name) == 0;
    if (without_declaration && name.rfind("MPI_", 0) == 0)
      return t_.error("M2", t_.at(context_, e->getLocation()), outside_of_device_mpi(name)), true;
    if (t_.is_users(context_, f->getLocation()) && !is_of_library(f) && !without_declaration) {
      t_.used.push_back({t_.at(context_, e->getLocation()), name, false});
      if (f->isImplicit()) declare_before_use(f);
      return true;
    }
    if (name == "MPI_Init" || name == "MPI_Init_thread") t_.calls_init = true;
    if (name == "__errno_location") return (void)t_.replace_macro(context_, e->getLocation(), "gpuheap::mpi::c::error_number()"), true;
    t_.reads_input = t_.reads_input || name == "scanf" || name == "getchar";
    t_.reads_environment = t_.reads_environment || name == "getenv";
    switch (availability_of(name)) {
      case availability::there:
        break;
      case availability::renamed:
        (void)t_.replace_word(context_, e->getLocation(), "gpuheap::mpi::c::" + name);
        break;
      case availability::missing:
        t_.used.push_back({t_.at(context_, e->getLocation()), name, true});
    }
    return true;
  }

  bool VisitCallExpr(CallExpr* e) override {
    conversions_.look_at(e);
    auto const* callee = e->getDirectCallee();
    if (callee == nullptr) return true;
    if (inside_ != nullptr) t_.frames[frame_of(inside_)].calls.insert(frame_of(callee));
    if (t_.is_users(context_, callee->getLocation()) && !callee->isImplicit() && !is_of_library(callee)) return true;
    auto const name = callee->getName();
    if (name == "MPI_Init" || name == "MPI_Init_thread") forget_arguments(e);
    if (name == "fopen") open_to_read(e);
    if (name == "fprintf" || name == "fflush") print_to_output(e, name.str());
    if (name == "printf") check_format(e, 0);
    return true;
  }
  bool VisitImplicitCastExpr(ImplicitCastExpr* e) override { return conversions_.look_at(e), true; }
  // Arithmetic on a pointer to void counts bytes in GNU C and does not exist in C++. A cast to char* is inserted.
  bool VisitBinaryOperator(BinaryOperator* e) override {
    auto const type = e->getLHS()->getType();
    if (!e->isAdditiveOp() || !type->isVoidPointerType() || e->getLHS()->getBeginLoc().isMacroID()) return true;
    auto const end = Lexer::getLocForEndOfToken(e->getLHS()->getEndLoc(), 0, sources_, context_.getLangOpts());
    if (end.isValid() && t_.insert_before(context_, e->getLHS()->getBeginLoc(), "(char*)(", "sum"))
      (void)t_.insert_before(context_, end, ")", "sum");
    return true;
  }
  bool VisitInitListExpr(InitListExpr* e) override { return conversions_.look_at(e), true; }
  bool VisitCompoundLiteralExpr(CompoundLiteralExpr* e) override { return conversions_.look_at(e), true; }

  bool VisitUnaryExprOrTypeTraitExpr(UnaryExprOrTypeTraitExpr* e) override { return arrays_.look_at(e), true; }

  bool VisitGCCAsmStmt(GCCAsmStmt* s) override {
    t_.error("M5", t_.at(context_, s->getBeginLoc()), "assembly of this machine means nothing to a GPU: write it in C");
    return true;
  }
  bool VisitAddrLabelExpr(AddrLabelExpr* e) override {
    t_.error("M5", t_.at(context_, e->getBeginLoc()), "device code has no addresses of labels: use a switch");
    return true;
  }

 private:
  void refuse_type(QualType type, place const& at) {
    auto const* basic = type->getBaseElementTypeUnsafe()->getAs<BuiltinType>();
    if (basic != nullptr && (basic->getKind() == BuiltinType::LongDouble || basic->getKind() == BuiltinType::Float128))
      t_.error("M5", at, "device code has no `" + type.getAsString() + "`: use double");
    if (type->isAnyComplexType()) t_.error("M5", at, "device code has no complex numbers of C: use a struct of two");
    if (type->isAtomicType()) t_.error("M5", at, "ranks share no memory: leave `_Atomic` out");
  }

  // Whether main's arguments are used for more than reading. Then each rank has its own copies.
  bool are_written(FunctionDecl const* f, ParmVarDecl const* words) {
    struct finder : tree_reader {
      bool VisitDeclRefExpr(DeclRefExpr* e) override {
        if (e->getDecl() == words) written = written || !is_read(e);
        return true;
      }
      // Whether a use of argv only reads: argv[i] is compared, printed, indexed, or passed as a pointer to const; or MPI_Init takes the
      // address of argv.
      bool is_read(Expr const* e) const {
        Expr const* at = e;
        bool subscript = false;
        for (int i = 0; i < 16; ++i) {
          auto const parents = context->getParents(*at);
          if (parents.size() != 1) return false;
          auto const* up = parents[0].get<Expr>();
          if (up == nullptr) return false;
          if (auto const* conversion = dyn_cast<CastExpr>(up)) {
            QualType const to = conversion->getType();
            if (subscript && to->isPointerType() && to->getPointeeType().isConstQualified()) return true;
          } else if (isa<ArraySubscriptExpr>(up)) {
            if (subscript) return true;
            subscript = true;
          } else if (auto const* call = dyn_cast<CallExpr>(up)) {
            auto const* callee = call->getDirectCallee();
            if (callee == nullptr || !subscript) return false;
            for (unsigned k = 0; k < call->getNumArgs(); ++k) {
              if (call->getArg(k)->IgnoreParenImpCasts() == at->IgnoreParenImpCasts())
                return k >= callee->getNumParams() && callee->isVariadic();
            }
            return false;
          } else if (auto const* unary = dyn_cast<UnaryOperator>(up)) {
            if (unary->getOpcode() == UO_AddrOf) return passed_to_init(up);
            if (unary->getOpcode() == UO_LNot) return true;
            if (unary->getOpcode() != UO_Deref) return false;
            if (subscript) return true;
            subscript = true;
          } else if (auto const* operation = dyn_cast<BinaryOperator>(up)) {
            return operation->isComparisonOp() || operation->isLogicalOp();
          } else if (!isa<ParenExpr>(up)) {
            return false;
          }
          at = up;
        }
        return false;
      }
      bool passed_to_init(Expr const* e) const {
        auto const parents = context->getParents(*e);
        auto const* call = parents.size() == 1 ? parents[0].get<CallExpr>() : nullptr;
        return call != nullptr && call->getDirectCallee() != nullptr && call->getDirectCallee()->getName().starts_with("MPI_Init");
      }
      ASTContext* context = nullptr;
      ParmVarDecl const* words = nullptr;
      bool written = false;
    } all;
    all.context = &context_;
    all.words = words;
    all.TraverseStmt(f->getBody());
    return all.written;
  }

  void translate_main(FunctionDecl const* f) {
    place const at = t_.at(context_, f->getLocation());
    bool own_words = false;
    if (f->getNumParams() > 2)
      return t_.error("M1", at, "main takes argc and argv, and nothing else: there is no environment to be handed over");
    if (!t_.insert_before(context_, f->getBeginLoc(), "GPUHEAP_FN ", "main")) return;
    (void)t_.replace_word(context_, f->getLocation(), t_.root);
    if (f->getNumParams() == 2) {
      auto const* words = f->getParamDecl(1);
      auto const where = stretch_of(context_, t_.found, words->getSourceRange());
      if (where.file.empty()) return t_.error("M1", at, "a macro writes main's parameters: write them out");
      own_words = are_written(f, words);
      std::string const type = own_words ? "char** " : "gpuheap::mpi::arguments ";
      t_.changes.replace(where, type + word_in_cpp(words->getNameAsString(), t_.words, t_.there));
    }
    auto const* body = cast<CompoundStmt>(f->getBody());
    if (body->body_empty() || !isa<ReturnStmt>(body->body_back()))
      (void)t_.insert_before(context_, body->getRBracLoc(), "  return 0;\n", "end of main");
    t_.mains.push_back({at.file, f->getNumParams(), own_words});
    check_stack(f);
  }

  // Replaces the arguments of MPI_Init(&argc, &argv) by NULL, because ranks already have theirs.
  void forget_arguments(CallExpr const* e) {
    for (unsigned i = 0; i < e->getNumArgs() && i < 2; ++i) {
      auto const* argument = e->getArg(i);
      auto const where = stretch_of(context_, t_.found, argument->getSourceRange());
      if (where.file.empty() || !where.editable ||
          argument->IgnoreParenCasts()->isNullPointerConstant(context_, Expr::NPC_ValueDependentIsNull))
        continue;
      t_.changes.replace(where, "NULL");
    }
  }

  void read_variable(DeclRefExpr const* e, VarDecl const* v) {
    auto const spelled = variables_.spelled.find(v->getFirstDecl());
    if (spelled != variables_.spelled.end()) {
      (void)t_.replace_word(context_, e->getLocation(), spelled->second);
      if (e->getLocation().isMacroID() && sources_.isMacroBodyExpansion(e->getLocation())) in_macro(e, spelled->second);
      return;
    }
    if (e->getLocation().isMacroID() && sources_.isMacroBodyExpansion(e->getLocation())) in_macro(e, "");
    bool const of_system = v->hasGlobalStorage() && !t_.is_users(context_, v->getLocation()) && handled_.count(e) == 0;
    if (!of_system) return;
    if (auto const ours = variable_of_library(v->getName()); !ours.empty()) {
      t_.reads_input = t_.reads_input || v->getName() == "stdin";
      (void)t_.replace_macro(context_, e->getLocation(), ours);
      return;
    }
    t_.used.push_back({t_.at(context_, e->getLocation()), v->getNameAsString(), true});
  }
  // Reports a name in a macro that is a rank's variable in one use and another variable in another use, because both uses share the macro's
  // text.
  void in_macro(DeclRefExpr const* e, std::string const& spelled) {
    auto const where = spelled_at(context_, t_.found, e->getLocation());
    auto const [entry, is_new] = in_macros_.emplace(std::pair{where.file, where.offset}, spelled);
    if (!is_new && entry->second != spelled)
      t_.error("M4", t_.at(context_, e->getLocation()),
               "this macro means a variable of the file in one place and a local one in another: give them different names");
  }

  // Inserts a declaration of a function that is called before it is declared. C++ does not allow such a call.
  void declare_before_use(FunctionDecl const* f) {
    auto const* definition = f->getDefinition();
    if (definition == nullptr || inside_ == nullptr || !declared_.insert(definition).second) return;
    auto const head = stretch_of(context_, t_.found, {definition->getBeginLoc(), definition->getBody()->getBeginLoc()});
    if (head.file.empty() || head.length == 0) return;
    auto const text = t_.text_at(head.file, head.offset, head.length - 1);
    auto const declaration = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    // The calling function has a GPUHEAP_FN in front already. The declaration is inserted after it, and the calling function gets another.
    (void)t_.insert_before(context_, inside_->getBeginLoc(), declaration + ";\nGPUHEAP_FN ", "function");
  }

  // Records a file that the program opens for reading. The host reads the files whose names are literals or arguments of the program.
  void open_to_read(CallExpr const* e) {
    if (e->getNumArgs() != 2) return;
    auto const* how = dyn_cast<StringLiteral>(e->getArg(1)->IgnoreParenCasts());
    bool const reads = how != nullptr && how->getString().starts_with("r") && !how->getString().contains('+');
    if (!reads)
      t_.error(
          "M3", t_.at(context_, e->getBeginLoc()),
          "ranks on a GPU write no files, and the host reads those that are opened with \"r\", as a literal: print results with printf");
    t_.reads_files = true;
    auto const* name = dyn_cast<StringLiteral>(e->getArg(0)->IgnoreParenCasts());
    if (name == nullptr) return;
    auto const where = stretch_of(context_, t_.found, name->getSourceRange());
    t_.read_by_name.insert(where.file.empty() ? "\"" + name->getString().str() + "\"" : t_.text_at(where.file, where.offset, where.length));
  }

  // Turns fprintf to stdout or stderr into printf, and fflush of these into (void)0.
  void print_to_output(CallExpr const* e, std::string const& name) {
    auto const* stream = e->getNumArgs() == 0 ? nullptr : dyn_cast<DeclRefExpr>(e->getArg(0)->IgnoreParenImpCasts());
    std::string const to = stream == nullptr ? "" : stream->getDecl()->getNameAsString();
    if (to != "stdout" && to != "stderr") return;
    auto const* callee = dyn_cast<DeclRefExpr>(e->getCallee()->IgnoreParenImpCasts());
    auto const begin = spelled_at(context_, t_.found, callee->getLocation());
    if (!begin.editable) return;
    // Finds the tokens `name ( stream ,` in the file's text, because they may stand in a macro's body.
    auto const& tokens = t_.tokens[begin.file];
    std::size_t i = 0;
    while (i < tokens.size() && tokens[i].offset != begin.offset) ++i;
    if (i + 3 >= tokens.size() || tokens[i + 1].text != "(" || tokens[i + 2].text != to) return;
    std::string const& last = tokens[i + 3].text;
    unsigned const end = tokens[i + 3].offset + 1;
    if (name == "fprintf" && last == ",") {
      std::string const& text = t_.found.texts.at(begin.file);
      unsigned after = end;
      while (text[after] == ' ') ++after;
      t_.changes.replace({begin.file, begin.offset, after - begin.offset, true}, "printf(");
      if (to == "stderr")
        t_.tell(severity::note, "M7", t_.at(context_, e->getBeginLoc()), "ranks print to standard output: this becomes printf");
      check_format(e, 1);
    } else if (name == "fflush" && last == ")") {
      t_.changes.replace({begin.file, begin.offset, end - begin.offset, true}, "(void)0");
    } else {
      return;
    }
    handled_.insert(callee);
    handled_.insert(stream);
  }

  // Rewrites the length modifiers z, t and j of a format as l, which has the same size here. The device's printf knows only h, l and ll.
  void check_format(CallExpr const* e, unsigned first) {
    auto const* format = e->getNumArgs() <= first ? nullptr : dyn_cast<StringLiteral>(e->getArg(first)->IgnoreParenCasts());
    if (format == nullptr || format->getCharByteWidth() != 1) return;
    auto const text = format->getString();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') continue;
      ++i;
      while (i < text.size() && llvm::StringRef{"-+ #0123456789.*'"}.contains(text[i])) ++i;
      if (i == text.size() || text[i] == '%') continue;
      SourceLocation const letter =
          format->getLocationOfByte(static_cast<unsigned>(i), sources_, context_.getLangOpts(), context_.getTargetInfo());
      if (text[i] == 'z' || text[i] == 't' || text[i] == 'j') {
        place const at = t_.at(context_, letter);
        if (letter.isMacroID() || t_.found.editable.count(at.file) == 0) {
          t_.error("M3", t_.at(context_, e->getBeginLoc()), "the device's printf does not know %z, %t and %j: write %lu or %ld");
        } else {
          t_.changes.replace({at.file, at.offset, 1, true}, "l");
        }
      } else if (text[i] == 'n' || text[i] == 'm') {
        t_.error("M3", t_.at(context_, e->getBeginLoc()), std::string{"the device's printf knows no %"} + text[i] + ": print without it");
      }
    }
    constexpr unsigned most = 32;  // CUDA's limit
    if (e->getNumArgs() > first + 1 + most)
      t_.error("M3", t_.at(context_, e->getBeginLoc()), "the device's printf takes 32 values at most: print in two calls");
  }

  translator& t_;
  ASTContext& context_;
  SourceManager const& sources_;
  unit_variables const& variables_;
  conversions conversions_;
  local_arrays arrays_;
  FunctionDecl const* inside_ = nullptr;
  std::set<FunctionDecl const*> declared_;
  std::set<Expr const*> handled_;
  std::map<std::pair<std::string, unsigned>, std::string> in_macros_;
};

}  // namespace

void find_definitions(translator& t, ASTContext& context) {
  for (auto* d : context.getTranslationUnitDecl()->decls()) {
    auto const* f = dyn_cast<FunctionDecl>(d);
    if (f != nullptr && f->doesThisDeclarationHaveABody() && t.is_users(context, f->getLocation())) t.defined.insert(f->getNameAsString());
  }
}

void read_functions(translator& t, ASTContext& context, unit_variables const& variables) {
  function_reader reader{t, context, variables};
  for (auto* d : context.getTranslationUnitDecl()->decls()) {
    if (t.is_users(context, d->getLocation())) reader.TraverseDecl(d);
  }
}

}  // namespace coalesce
