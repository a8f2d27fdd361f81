// Variables of static storage duration: each rank has its own, as a member of a struct (gpuheap/mpi/variables.hpp).
#include "frontend.hpp"
#include "translator.hpp"
#include "tree_reader.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Expr.h>
#include <clang/AST/TypeLoc.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

namespace coalesce {

using namespace clang;

namespace {

// Finds the variables whose addresses are taken, because these cannot become constants of C++, and the static variables of functions.
class uses : public tree_reader {
 public:
  bool VisitUnaryOperator(UnaryOperator* e) override {
    auto const* named = e->getOpcode() == UO_AddrOf ? dyn_cast<DeclRefExpr>(e->getSubExpr()->IgnoreParens()) : nullptr;
    if (named != nullptr) addressed.insert(named->getDecl()->getCanonicalDecl());
    return true;
  }
  bool VisitDeclStmt(DeclStmt* s) override {
    std::vector<VarDecl*> group;
    for (auto* d : s->decls()) {
      auto* v = dyn_cast<VarDecl>(d);
      if (v != nullptr && (v->isStaticLocal() || v->hasExternalStorage())) group.push_back(v);
    }
    if (!group.empty()) in_functions.push_back(group);
    return true;
  }

  std::set<Decl const*> addressed;
  std::vector<std::vector<VarDecl*>> in_functions;
};

std::string as_name(std::string text) {
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) ? "_" + text : text;
}

class finder {
 public:
  finder(translator& t, ASTContext& context, std::string const& source, std::map<std::pair<std::string, unsigned>, std::string>& in_headers)
      : t_{t}, context_{context}, sources_{context.getSourceManager()}, source_{source}, in_headers_{in_headers} {}

  unit_variables run() {
    found_.stem = as_name(std::filesystem::path{source_}.stem().string());
    std::vector<std::vector<VarDecl*>> groups;
    std::map<std::pair<std::string, unsigned>, std::size_t> number;
    for (auto* d : context_.getTranslationUnitDecl()->decls()) {
      if (!t_.is_users(context_, d->getLocation())) continue;
      uses_.TraverseDecl(d);
      auto* v = dyn_cast<VarDecl>(d);
      if (v == nullptr) continue;
      place const begin = t_.at(context_, v->getBeginLoc());
      auto const [entry, is_new] = number.emplace(std::pair{begin.file, begin.offset}, groups.size());
      if (is_new) groups.emplace_back();
      groups[entry->second].push_back(v);
    }
    for (auto const& group : groups) take(group, nullptr);
    for (auto const& group : uses_.in_functions) take(group, cast<FunctionDecl>(group.front()->getParentFunctionOrMethod()));
    return std::move(found_);
  }

 private:
  // The reason why ranks cannot have these variables for themselves, with advice; empty if they can.
  std::string refusal(std::vector<VarDecl*> const& group, FunctionDecl const* function) {
    for (auto const* v : group) {
      std::string const name = "`" + v->getNameAsString() + "`";
      if (v->getBeginLoc().isMacroID() || v->getLocation().isMacroID()) return "a macro declares " + name + ": write it out";
      if (v->hasExternalStorage() && v->getInit() == nullptr)
        return name +
               " is defined elsewhere, and a rank's variables belong to one file: reach it by a function of that file, or by a parameter";
      if (v->getTLSKind() != VarDecl::TLS_None) return name + " is thread-local: each rank has its own anyway, leave that word out";
      if (v->getPreviousDecl() != nullptr || v->getMostRecentDecl() != v)
        return name + " is declared more than once: keep the one declaration with its value, in front of all uses";
      if (auto const* tag = v->getType()->getBaseElementTypeUnsafe()->getAsTagDecl();
          function != nullptr && tag != nullptr && tag->getParentFunctionOrMethod() != nullptr)
        return "the type of " + name + " is declared in the function: declare it in front of the function";
    }
    return "";
  }

  void take(std::vector<VarDecl*> const& group, FunctionDecl const* function) {
    auto const* first = group.front();
    place const at = t_.at(context_, first->getLocation());
    place const begin = t_.at(context_, first->getBeginLoc());
    if (auto const why = refusal(group, function); !why.empty()) return t_.error("M4", at, why);
    if (t_.found.editable.count(begin.file) == 0)
      return t_.error("E3", at, "this variable stands in " + begin.file + ", which is not among the files given: name it too");
    bool const constant = as_constant(group, begin);
    if (begin.file != source_) {
      auto const [entry, is_new] = in_headers_.emplace(std::pair{begin.file, begin.offset}, source_);
      if (!is_new && entry->second != source_ && !constant)
        return t_.error(
            "M4", at,
            "more than one of the files given includes this variable, and a rank's variables belong to one file: move it to one of them");
    }
    if (constant) return;
    std::string const owner = function == nullptr ? "" : function->getNameAsString() + "_";
    std::string const name = t_.fresh(owner + first->getNameAsString() + "_of_" + found_.stem);
    SourceLocation const semicolon = semicolon_after(group.back());
    if (semicolon.isInvalid()) return t_.error("M4", at, "this declaration has no end that can be found: write it in a simpler way");
    if (function == nullptr) {
      in_place(group, begin, t_.at(context_, semicolon), name);
    } else if (!before_function(group, function, begin, t_.at(context_, semicolon), name)) {
      return;
    }
    found_.structs.push_back(name);
    for (auto const* v : group) {
      std::string const member = word_in_cpp(v->getNameAsString(), t_.words, t_.there);
      found_.spelled[v->getFirstDecl()] = "gpuheap::mpi::own<" + name + ">()." + member;
    }
  }

  // Makes constants such as `const int n = 4;` constexpr, so that all ranks share them. Returns false if the group has other variables.
  bool as_constant(std::vector<VarDecl*> const& group, place const& begin) {
    for (auto const* v : group) {
      bool const simple = v->getType()->isArithmeticType() && v->getType().isConstQualified() && !v->getType().isVolatileQualified();
      if (!simple || v->getInit() == nullptr || !v->getInit()->isEvaluatable(context_)) return false;
      if (uses_.addressed.count(v->getCanonicalDecl()) != 0) return false;
    }
    t_.changes.insert({begin.file, begin.offset, 0, true}, "constexpr ");
    return true;
  }

  SourceLocation semicolon_after(VarDecl const* last) {
    SourceLocation at =
        Lexer::getLocForEndOfToken(sources_.getExpansionRange(last->getEndLoc()).getEnd(), 0, sources_, context_.getLangOpts());
    Token token;
    // Attributes may stand before the semicolon.
    for (int i = 0; i < 64 && at.isValid() && !Lexer::getRawToken(at, token, sources_, context_.getLangOpts(), true); ++i) {
      if (token.is(tok::semi)) return token.getLocation();
      at = token.getEndLoc();
    }
    return {};
  }

  // A change of `length` characters at `offset` of the file into `text`.
  struct part {
    unsigned offset, length;
    std::string text;
  };
  // The changes that turn the declaration of `group` into one of members.
  std::vector<part> as_members(std::vector<VarDecl*> const& group, place const& begin) {
    std::vector<part> parts;
    unsigned const names = t_.at(context_, group.front()->getLocation()).offset;
    for (auto const& token : t_.tokens[begin.file]) {
      if (token.offset < begin.offset || token.offset >= names) continue;
      if (token.text != "static" && token.text != "extern") continue;
      std::string const& text = t_.found.texts.at(begin.file);
      unsigned length = static_cast<unsigned>(token.text.size());
      while (text[token.offset + length] == ' ') ++length;
      parts.push_back({token.offset, length, ""});
    }
    for (auto const* v : group) {
      // A member cannot get an array's length from its initialiser.
      auto const* array = context_.getAsConstantArrayType(v->getType());
      if (array == nullptr || v->getTypeSourceInfo() == nullptr) continue;
      auto const written = v->getTypeSourceInfo()->getTypeLoc().getUnqualifiedLoc().getAs<IncompleteArrayTypeLoc>();
      if (!written) continue;
      place const bracket = t_.at(context_, written.getLBracketLoc());
      parts.push_back({bracket.offset + 1, 0, std::to_string(array->getSize().getZExtValue())});
    }
    return parts;
  }

  void in_place(std::vector<VarDecl*> const& group, place const& begin, place const& semicolon, std::string const& name) {
    auto const* tag = group.front()->getType()->getBaseElementTypeUnsafe()->getAsTagDecl();
    bool const defined_here = tag != nullptr && tag->isCompleteDefinition() && tag->isEmbeddedInDeclarator() &&
                              t_.at(context_, tag->getBeginLoc()).offset >= begin.offset &&
                              t_.at(context_, tag->getBraceRange().getEnd()).offset < semicolon.offset &&
                              t_.at(context_, tag->getLocation()).file == begin.file;
    for (auto const& p : as_members(group, begin)) t_.changes.replace({begin.file, p.offset, p.length, true}, p.text);
    if (defined_here && !tag->getName().empty()) {
      // The type's definition stays outside of the struct, as other code names it.
      place const end = t_.at(context_, tag->getBraceRange().getEnd());
      t_.changes.insert({begin.file, end.offset + 1, 0, true},
                        ";\nstruct " + name + " { " + tag->getKindName().str() + " " + tag->getName().str());
    } else {
      t_.changes.insert({begin.file, begin.offset, 0, true}, "struct " + name + " { ");
    }
    t_.changes.insert({begin.file, semicolon.offset + 1, 0, true}, " };");
  }

  // Moves the text of a function's static variables in front of the function.
  bool before_function(std::vector<VarDecl*> const& group, FunctionDecl const* function, place const& begin, place const& semicolon,
                       std::string const& name) {
    place const to = t_.at(context_, function->getBeginLoc());
    if (to.file != begin.file || function->getBeginLoc().isMacroID())
      return t_.error("M4", begin, "a macro writes this function, and its static variable has no place before it: write it out"), false;
    std::string text = t_.text_at(begin.file, begin.offset, semicolon.offset + 1 - begin.offset);
    auto parts = as_members(group, begin);
    std::sort(parts.begin(), parts.end(), [](auto const& a, auto const& b) { return a.offset > b.offset; });
    for (auto const& p : parts) text.replace(p.offset - begin.offset, p.length, p.text);
    t_.changes.insert({begin.file, to.offset, 0, true}, "struct " + name + " { " + text + " };\n");
    // A comment replaces the declaration, and the rest of the line goes to the next line.
    auto const& whole = t_.found.texts.at(begin.file);
    auto const rest = whole.find_first_not_of(" \t", semicolon.offset + 1);
    bool const line_ends = rest == std::string::npos || whole[rest] == '\n' || whole.compare(rest, 2, "//") == 0;
    t_.changes.replace({begin.file, begin.offset, semicolon.offset + 1 - begin.offset, true}, "// " + name + (line_ends ? "" : "\n"));
    found_.moved.insert({begin.file, begin.offset});
    return true;
  }

  translator& t_;
  ASTContext& context_;
  SourceManager const& sources_;
  std::string const& source_;
  std::map<std::pair<std::string, unsigned>, std::string>& in_headers_;
  uses uses_;
  unit_variables found_;
};

}  // namespace

unit_variables find_variables(translator& t, ASTContext& context, std::string const& source,
                              std::map<std::pair<std::string, unsigned>, std::string>& in_headers) {
  return finder{t, context, source, in_headers}.run();
}

}  // namespace coalesce
