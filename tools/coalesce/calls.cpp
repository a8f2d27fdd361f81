// Calls: allocations and releases, functions known by name, functions whose definition is visible, and all others.
#include "flow.hpp"
#include "frontend.hpp"
#include "known.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <initializer_list>

namespace coalesce {

using namespace clang;

namespace {

// Translates a callee's `v` to the caller: the parameters on which `v` depends are replaced by the caller's `arguments`.
value in_caller(value const& v, std::map<unsigned, value> const& arguments) {
  value result{v.same_in, 0, v.cause};
  for (auto const& [i, argument] : arguments) {
    if ((v.parameters >> i & 1) != 0) result = join(result, argument);
  }
  if ((v.parameters >> no_parameter & 1) != 0) result.same_in = scope::thread;
  return result;
}

// Whether `f` is the C library's function, and not a function with the same name in a class or a namespace of the program.
bool is_library_function(FunctionDecl const* f) {
  auto const* context = f->getDeclContext()->getRedeclContext();
  return f->getDeclName().isIdentifier() && !isa<CXXMethodDecl>(f) &&
         (context->isTranslationUnit() || context->isStdNamespace() || f->isExternC());
}

}  // namespace

void flow::tell(severity level, char const* id, SourceLocation at, std::string const& text) {
  if (!users_) return;
  diagnostic said{level, id, text, place_of(context_.getSourceManager(), at), {}};
  for (auto const& other : a_.found.diagnostics) {
    if (other.id == said.id && other.at.file == said.at.file && other.at.offset == said.at.offset && other.text == said.text) return;
  }
  a_.found.diagnostics.push_back(said);
}

// The macro whose body has the token at `at`, or "". `body` becomes the token's place in that body.
std::string flow::macro_of(SourceLocation at, place& body) const {
  auto const& sources = context_.getSourceManager();
  if (!at.isMacroID() || !sources.isMacroBodyExpansion(at)) return "";
  auto const spelling = sources.getSpellingLoc(at);
  body = place_of(sources, spelling);
  return Lexer::getImmediateMacroName(at, sources, context_.getLangOpts()).str();
}

// The empty stretch before the closing parenthesis at `at`.
stretch flow::closing(SourceLocation at) const {
  stretch s = stretch_of(context_, a_.found, SourceRange{at});
  s.length = 0;
  return s;
}

// Records that the callee may write these variables, now or later.
void flow::spoil(std::map<unsigned, Expr const*> const& addressed) {
  for (auto const& [i, e] : addressed) {
    escape(e);
    if (part_of(e).variable != nullptr) assign(e, differs(e->getExprLoc(), "a function whose definition is not visible may write here"));
  }
}

// Threads that allocate together wait for one another. A rank may wait for a message that another rank sends only after its own allocation,
// for example along a chain of ranks. If the ranks allocated together, all of them would wait forever. So no allocation is collective
// between a receive and the next call in which all ranks meet. A wait for requests counts as a wait for the rank's own sends if it has sent
// a message, and as a receive otherwise.
void flow::note_message(CallExpr const* e, std::string const& name, std::map<unsigned, value> const& arguments) {
  auto const is = [&](std::initializer_list<char const*> names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (is({"MPI_Send", "MPI_Isend"})) {
    now_.sent = true;
  } else if (is_waiting_of_ranks(name) || (is({"MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"}) && !now_.sent)) {
    now_.waits =
        differs(e->getExprLoc(), "a rank may wait here for a message that another one sends after its allocation", cause_kind::data);
  } else if (is_meeting_of_ranks(name)) {
    auto const communicator = arguments.find(e->getNumArgs() - 1);
    if (communicator == arguments.end() || communicator->second.same_in != scope::grid || communicator->second.parameters != 0) return;
    now_.waits = {};
    now_.sent = false;
  }
}

// Whether all strings that the call reads are the same for all ranks: program arguments or string literals.
bool flow::reads_arguments(CallExpr const* e) {
  for (auto const* argument : e->arguments()) {
    if (!argument->getType()->isPointerType()) continue;
    auto const* plain = argument->IgnoreParenImpCasts();
    if (isa<StringLiteral>(plain)) continue;
    auto const* element = dyn_cast<ArraySubscriptExpr>(plain);
    auto const* named = element == nullptr ? nullptr : dyn_cast<DeclRefExpr>(element->getBase()->IgnoreParenImpCasts());
    auto const* words = named == nullptr ? nullptr : dyn_cast<ParmVarDecl>(named->getDecl());
    if (words == nullptr || !root_ || !words->getType().isRestrictQualified()) return false;
  }
  return true;
}

value flow::eval_call(CallExpr const* e) {
  auto const* callee = e->getDirectCallee();
  auto const* method = dyn_cast_or_null<CXXMethodDecl>(callee);
  std::map<unsigned, value> arguments;
  std::map<unsigned, Expr const*> addressed;  // arguments that let the callee write a variable

  // Evaluates the object of a method call, or the pointer of a call through a pointer.
  unsigned first = 0;
  if (auto const* member = dyn_cast<CXXMemberCallExpr>(e)) {
    if (auto const* object = member->getImplicitObjectArgument()) {
      bool const by_pointer = object->getType()->isPointerType();
      if (by_pointer && isa<CXXThisExpr>(object->IgnoreParenImpCasts())) {
        arguments[this_object] = object_;
      } else if (by_pointer) {
        arguments[this_object] = join(eval(object), differs(object->getExprLoc(), "read from memory that any thread may have written"));
      } else {
        arguments[this_object] = eval(object);
        if (method != nullptr && !method->isConst() && object->isLValue()) addressed[this_object] = object;
      }
    }
  } else if (isa<CXXOperatorCallExpr>(e) && method != nullptr && method->isInstance() && e->getNumArgs() > 0) {
    arguments[this_object] = eval(e->getArg(0));
    if (!method->isConst() && e->getArg(0)->isLValue()) addressed[this_object] = e->getArg(0);
    first = 1;
  } else if (callee == nullptr) {
    (void)eval(e->getCallee());
  }
  for (unsigned i = first; i < e->getNumArgs(); ++i) {
    Expr const* const argument = e->getArg(i);
    unsigned const parameter = std::min(i - first, no_parameter);
    Expr const* const plain = argument->IgnoreParenImpCasts();
    auto const* unary = dyn_cast<UnaryOperator>(plain);
    bool const by_reference = callee != nullptr && i - first < callee->getNumParams() &&
                              callee->getParamDecl(i - first)->getType()->isReferenceType() &&
                              !callee->getParamDecl(i - first)->getType().getNonReferenceType().isConstQualified();
    if (unary != nullptr && unary->getOpcode() == UO_AddrOf && part_of(unary->getSubExpr()).variable != nullptr) {
      addressed[parameter] = unary->getSubExpr();
      arguments[parameter] = eval(unary->getSubExpr());
    } else {
      arguments[parameter] = eval(argument);
      if ((by_reference && argument->isLValue()) || plain->getType()->isArrayType()) addressed[parameter] = plain;
    }
  }

  value all;
  for (auto const& [i, v] : arguments) all = join(all, v);
  if (callee == nullptr) {
    spoil(addressed);
    value const unknown = differs(e->getExprLoc(), "the result of a call through a pointer");
    write_somewhere(unknown);
    return unknown;
  }

  std::string const name = callee->getDeclName().isIdentifier() ? callee->getName().str() : "";
  std::string const full = callee->getQualifiedNameAsString();
  if (full.rfind("gpuheap::coalesced::", 0) == 0) {
    if (name == "malloc" || name == "calloc")
      tell(severity::note, "I1", e->getExprLoc(), "this call already uses the collective heap: left unchanged");
    return differs(e->getExprLoc(), "each thread gets its own memory");
  }
  if (follows_from_texts(full) && !pattern_ && reads_arguments(e)) return all;
  if (effect_of(full) == effect::ends) return {};
  if (a_.asked.registered.count(full) != 0 || (is_library_function(callee) && a_.asked.registered.count(name) != 0)) {
    spoil(addressed);
    return allocate(e, site_kind::registered, arguments);
  }
  // A direct call of the operator is as one of malloc or free. Those of a class or of the program are its own.
  bool const is_new = callee->getOverloadedOperator() == OO_New || callee->getOverloadedOperator() == OO_Array_New;
  bool const is_delete = callee->getOverloadedOperator() == OO_Delete || callee->getOverloadedOperator() == OO_Array_Delete;
  if ((is_new || is_delete) && method == nullptr && !a_.is_users(callee) && !pattern_) {
    if (e->getNumArgs() == 1 && is_new) return allocate(e, site_kind::malloc, arguments);
    if (e->getNumArgs() == 1) return note_release(e), value{};
    if (is_delete && callee->getNumParams() == 2 && callee->getParamDecl(1)->getType()->isIntegerType())
      tell(severity::error, "E8", e->getExprLoc(), "a release with a size cannot be rewritten: write `operator delete` without the size");
  }
  if (is_library_function(callee)) {
    bool const visible = a_.is_users(callee) && a_.definition_of(callee) != nullptr;
    if (!visible) note_message(e, name, arguments);
    // MPI does not write through a parameter whose type is a pointer to const.
    if (name.rfind("MPI_", 0) == 0 && !visible) {
      std::erase_if(addressed, [&](auto const& one) {
        return one.first < callee->getNumParams() && callee->getParamDecl(one.first)->getType()->getPointeeType().isConstQualified();
      });
    }
    if (name == "malloc" || name == "calloc") return allocate(e, name == "malloc" ? site_kind::malloc : site_kind::calloc, arguments);
    if (name == "free" && !visible) return note_release(e), value{};
    if (auto const known = effect_of(name); known && !visible) {
      switch (*known) {
        case effect::pure:
          return all;
        case effect::uniform_in_block:
        case effect::uniform_in_warp: {
          scope const same_in = pattern_ ? scope::thread : *known == effect::uniform_in_block ? scope::block : scope::warp;
          if (name.rfind("__syncthreads", 0) == 0 && here().same_in <= scope::block)
            now_.shared_unknown = false, now_.shared_written.clear();
          return {
              same_in, 0,
              a_.cause_at(context_, e->getExprLoc(), cause_kind::source, "the result of " + name + " is that of a group of threads", -1)};
        }
        case effect::barrier:
          if (here().same_in <= scope::block) now_.shared_unknown = false, now_.shared_written.clear();
          return {};
        case effect::rank_of:
        case effect::size_of: {
          unsigned const last = e->getNumArgs() - 1;
          if (auto const out = addressed.find(last); out != addressed.end())
            assign(out->second, *known == effect::rank_of ? differs(e->getExprLoc(), "the rank is asked for here")
                                : pattern_                ? differs(e->getExprLoc(), "a number that the patterns do not follow")
                                                          : arguments[0]);
          return {};
        }
        case effect::same_in_communicator: {
          // A count of 1 means that the call writes the whole variable.
          unsigned const out = name == "MPI_Bcast" ? 0 : 1, count = out + 1, last = e->getNumArgs() - 1;
          Expr::EvalResult elements;
          bool const one = e->getArg(count)->EvaluateAsInt(elements, context_) && elements.Val.getInt() == 1;
          auto const to = addressed.find(out);
          bool const whole = to != addressed.end() && to->second->getType()->isArithmeticType();
          if (!pattern_ && one && whole && escaped_.count(part_of(to->second).variable) == 0) {
            assign(to->second, arguments[last]);
          } else {
            spoil(addressed);
            now_.shared_unknown = facts_.writes_memory = true;
          }
          return {};
        }
        case effect::allocates:
          if (name == "__nv_aligned_device_malloc")
            tell(
                severity::error, "E8", e->getExprLoc(),
                "what " + name + " allocates would be freed into another heap, which aligns to 16 bytes: where these suffice, call malloc");
          tell(severity::warning, "W8", e->getExprLoc(),
               name + " is not handled: write it as malloc, a copy and free, or leave its memory to the toolkit's heap");
          return differs(e->getExprLoc(), "each thread gets its own memory");
        case effect::ends:
          return {};
        case effect::differs:
          spoil(addressed);
          return differs(e->getExprLoc(), "the result of " + name + " differs between threads");
      }
    }
  }
  // A virtual call may reach any function.
  bool const is_virtual = method != nullptr && method->isVirtual();
  auto const* facts = is_virtual ? nullptr : a_.facts_of(callee);
  if (facts != nullptr) {
    if (a_.is_users(callee)) note_call(e, callee, arguments);
    value const result = call_visible(*facts, arguments, addressed);
    return pattern_ ? differs(e->getExprLoc(), "the result of a call, which the patterns do not follow") : result;
  }
  if (e->getNumArgs() > 0 && callee->hasAttr<ConstAttr>() && !is_virtual)
    return pattern_ ? differs(e->getExprLoc(), "the result of a call") : all;
  // A trivial copy or move assignment.
  if (method != nullptr && method->isTrivial() && (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator()) &&
      addressed.count(this_object) != 0 && !pattern_) {
    assign(addressed.at(this_object), arguments[0]);
    return arguments[0];
  }
  spoil(addressed);
  write_somewhere(differs(e->getExprLoc(), "a function whose definition is not visible may write here"));
  if (a_.is_users(callee) && a_.definition_of(callee) != nullptr) note_call(e, callee, arguments);  // a recursive or virtual call
  if (a_.is_users(callee) && a_.definition_of(callee) == nullptr && is_device(callee) && !callee->isImplicit() && !is_virtual)
    tell(severity::warning, "W2", e->getExprLoc(),
         "the definition of " + full +
             " is not in the files given: what it allocates stays in its own heap and must be freed there, and it must not free what is "
             "allocated here. Name its file too, or give it a further argument by hand and --register " +
             full);
  return differs(e->getExprLoc(), "the result of " + (full.empty() ? "a call" : full));
}

value flow::call_visible(function_facts const& facts, std::map<unsigned, value> const& arguments,
                         std::map<unsigned, Expr const*> const& addressed) {
  for (auto const& [i, e] : addressed) {
    if (auto const written = facts.written.find(i); written != facts.written.end()) {
      // The call may write only a part of the variable, so the old value counts as well.
      value const before = load(e->IgnoreParenImpCasts());
      assign(e, join(before, in_caller(written->second, arguments)));
    }
    if ((facts.leaked >> i & 1) != 0) escape(e);
  }
  if (facts.writes_memory) write_somewhere(in_caller(facts.memory, arguments));
  now_.waits = join(now_.waits, facts.waits);
  now_.sent = now_.sent || facts.sends;
  return in_caller(facts.result, arguments);
}

value flow::eval_construct(CXXConstructExpr const* e) {
  std::map<unsigned, value> arguments;
  std::map<unsigned, Expr const*> addressed;
  value all;
  for (unsigned i = 0; i < e->getNumArgs(); ++i) {
    Expr const* const argument = e->getArg(i);
    auto const* plain = argument->IgnoreParenImpCasts();
    auto const* unary = dyn_cast<UnaryOperator>(plain);
    if (unary != nullptr && unary->getOpcode() == UO_AddrOf) {
      addressed[std::min(i, no_parameter)] = unary->getSubExpr();
    } else if (plain->isLValue() && !e->getConstructor()->isCopyOrMoveConstructor()) {
      addressed[std::min(i, no_parameter)] = plain;
    }
    arguments[std::min(i, no_parameter)] = eval(argument);
    all = join(all, arguments[std::min(i, no_parameter)]);
  }
  auto const* constructor = e->getConstructor();
  bool const of_compiler = constructor->isImplicit() || constructor->isDefaulted();
  if (constructor->isTrivial() || (of_compiler && constructor->isCopyOrMoveConstructor())) return all;
  arguments[this_object] = {};
  auto const* facts = a_.facts_of(constructor);
  if (facts == nullptr && of_compiler) return all;
  if (facts == nullptr) return differs(e->getExprLoc(), "an object whose constructor's definition is not visible");
  value const returned = call_visible(*facts, arguments, addressed);
  auto const written = facts->written.find(this_object);
  return join(join(all, returned), written == facts->written.end() ? value{} : in_caller(written->second, arguments));
}

value flow::allocate(CallExpr const* e, site_kind kind, std::map<unsigned, value> const& arguments) {
  value const result = differs(e->getExprLoc(), "each thread gets its own memory");
  auto const* callee = e->getDirectCallee();
  if (!users_) return result;
  auto const& sources = context_.getSourceManager();
  site s;
  s.kind = kind;
  s.at = place_of(sources, e->getExprLoc());
  s.callee = callee->getQualifiedNameAsString();
  unsigned const expected = kind == site_kind::calloc ? 2 : 1;
  if (kind != site_kind::registered) {
    s.flagged = e->getNumArgs() != expected;
    for (auto const& [i, v] : arguments) s.size = join(s.size, v);
    if (e->getNumArgs() > 0) s.size_text = text_of(context_, {e->getArg(0)->getBeginLoc(), e->getArg(e->getNumArgs() - 1)->getEndLoc()});
  } else {
    unsigned written = 0;
    for (unsigned i = 0; i < e->getNumArgs(); ++i) written += !isa<CXXDefaultArgExpr>(e->getArg(i));
    s.flagged = written == callee->getNumParams() && !callee->isVariadic();
    if (written + 1 < callee->getNumParams() && !callee->isVariadic()) s.refused = "arguments are left to their defaults: write them out";
    if (s.flagged && e->getNumArgs() > 0 && !callee->getParamDecl(callee->getNumParams() - 1)->getType()->isBooleanType()) {
      s.flagged = false;
      s.refused = "the registered function " + s.callee + " takes no flag: declare it with a last parameter `bool coalesce = false`";
    }
  }
  s.control = together();
  auto const* named = dyn_cast<DeclRefExpr>(e->getCallee()->IgnoreParenImpCasts());
  SourceLocation const name_at = named == nullptr ? e->getBeginLoc() : named->getLocation();
  s.macro = macro_of(name_at, s.macro_at);
  s.name = s.macro.empty() && named != nullptr ? stretch_of(context_, a_.found, named->getSourceRange())
                                               : spelled_at(context_, a_.found, name_at);
  s.close = closing(e->getRParenLoc());
  s.arm_of = arm_of_;
  s.arm_else = arm_else_;
  sites_[e] = s;
  return result;
}

void flow::note_call(CallExpr const* e, FunctionDecl const* callee, std::map<unsigned, value> const& arguments) {
  if (!users_) return;
  call c;
  c.at = place_of(context_.getSourceManager(), e->getExprLoc());
  c.callee_key = a_.key_of(callee);
  c.callee = callee->getQualifiedNameAsString();
  c.arguments = arguments;
  c.control = together();
  c.close = closing(e->getRParenLoc());
  c.has_arguments = e->getNumArgs() != 0 && !isa<CXXDefaultArgExpr>(e->getArg(0)) && !isa<CXXOperatorCallExpr>(e);
  for (auto const* argument : e->arguments()) c.all_written = c.all_written && !isa<CXXDefaultArgExpr>(argument);
  place ignored;
  c.macro = macro_of(e->getRParenLoc(), ignored);
  calls_[e] = c;
}

namespace {

// The reason why `delete` of such an object is not its destructor followed by a free of the same address; "" if it is.
std::string cannot_destroy(ASTContext const& context, QualType type, bool array) {
  if (!type->isIncompleteType() && !type->isDependentType() && context.getTypeAlignInChars(type).getQuantity() > 16)
    return "the type asks for a larger alignment than the heap's 16 bytes";
  auto const* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (record == nullptr || !record->hasDefinition()) return "";
  if (auto const* destructor = record->getDestructor(); destructor != nullptr && destructor->getAccess() != AS_public)
    return "the destructor of the class is not public, so that only `delete` in the class or a friend can call it";
  if (record->isPolymorphic()) return "the class has virtual functions, and only its destructor knows the address that `delete` frees";
  if (array && !record->hasTrivialDestructor()) return "an array of objects with a destructor stores its length in front of the objects";
  return "";
}

}  // namespace

value flow::eval_new(CXXNewExpr const* e) {
  value const result = differs(e->getExprLoc(), "each thread gets its own memory");
  value size;
  if (e->isArray()) size = eval(*e->getArraySize());
  for (unsigned i = 0; i < e->getNumPlacementArgs(); ++i) (void)eval(e->getPlacementArg(i));
  auto const* allocator = e->getOperatorNew();
  bool const own = allocator != nullptr && (isa<CXXMethodDecl>(allocator) || a_.is_users(allocator));
  if (e->getInitializer() != nullptr) (void)eval(e->getInitializer());
  if (e->getNumPlacementArgs() > 0 || own || !users_) {
    auto const* tag = e->getNumPlacementArgs() == 1 ? e->getPlacementArg(0)->getType()->getAsTagDecl() : nullptr;
    if (users_ && tag != nullptr && tag->getName() == "memory" && tag->getQualifiedNameAsString().rfind("gpuheap::coalesced::", 0) == 0)
      tell(severity::note, "I1", e->getExprLoc(), "this call already uses the collective heap: left unchanged");
    return result;
  }
  site s;
  s.kind = e->isArray() ? site_kind::create_array : site_kind::create;
  s.at = place_of(context_.getSourceManager(), e->getBeginLoc());
  s.callee = "new";
  SourceRange const in_parentheses = e->getTypeIdParens();
  s.size_text = text_of(
      context_,
      {in_parentheses.isValid() ? in_parentheses.getBegin() : e->getAllocatedTypeSourceInfo()->getTypeLoc().getBeginLoc(), e->getEndLoc()});
  s.size = size;
  s.control = together();
  s.refused = cannot_destroy(context_, e->getAllocatedType(), e->isArray());
  s.type_text = text_of(context_, e->getAllocatedTypeSourceInfo()->getTypeLoc().getSourceRange());
  s.macro = macro_of(e->getBeginLoc(), s.macro_at);
  SourceLocation const word = e->isGlobalNew() ? SourceLocation{} : e->getBeginLoc();
  if (word.isInvalid()) s.refused = "write `new` without `::`";
  s.name = s.macro.empty() && word.isValid() ? stretch_of(context_, a_.found, SourceRange{word})
                                             : spelled_at(context_, a_.found, e->getBeginLoc());
  s.close = s.name;
  s.arm_of = arm_of_;
  s.arm_else = arm_else_;
  sites_[e] = s;
  return result;
}

void flow::note_delete(CXXDeleteExpr const* e) {
  // The program may define one form of a global operator, which the others call.
  auto const* frees = e->getOperatorDelete();
  bool own = isa_and_nonnull<CXXMethodDecl>(frees);
  if (frees != nullptr && !own) {
    for (auto const* form : context_.getTranslationUnitDecl()->lookup(frees->getDeclName()))
      own = own || (isa<FunctionDecl>(form) && a_.is_users(form));
  }
  if (!users_ || own || e->getDestroyedType().isNull()) return;
  release r;
  r.kind = e->isArrayForm() ? release_kind::destroy_array : release_kind::destroy;
  r.at = place_of(context_.getSourceManager(), e->getBeginLoc());
  r.whole = stretch_of(context_, a_.found, e->getSourceRange());
  r.operand = stretch_of(context_, a_.found, e->getArgument()->IgnoreImpCasts()->getSourceRange());
  r.refused = cannot_destroy(context_, e->getDestroyedType(), e->isArrayForm());
  place ignored;
  r.macro = macro_of(e->getBeginLoc(), ignored);
  releases_[e] = r;
}

void flow::note_release(CallExpr const* e) {
  if (!users_) return;
  release r;
  r.at = place_of(context_.getSourceManager(), e->getExprLoc());
  auto const* named = dyn_cast<DeclRefExpr>(e->getCallee()->IgnoreParenImpCasts());
  SourceLocation const name_at = named == nullptr ? e->getBeginLoc() : named->getLocation();
  place ignored;
  r.macro = macro_of(name_at, ignored);
  r.whole = r.macro.empty() && named != nullptr ? stretch_of(context_, a_.found, named->getSourceRange())
                                                : spelled_at(context_, a_.found, name_at);
  releases_[e] = r;
}

// A use of malloc, calloc or free that is no call. A pointer to free becomes one to the heap's; the others take a flag more than the
// program's pointer types do.
void flow::note_address(DeclRefExpr const* named, FunctionDecl const* f) {
  if (!users_ || !is_library_function(f) || (a_.is_users(f) && a_.definition_of(f) != nullptr)) return;
  std::string const name = f->getName().str();
  if (name == "malloc" || name == "calloc")
    tell(severity::error, "E8", named->getExprLoc(),
         "device code uses `" + name +
             "` other than by calling it, and what it then allocates would be freed into another heap: call it "
             "in a function of the program, and use that function here");
  if (name != "free") return;
  release r;
  r.at = place_of(context_.getSourceManager(), named->getExprLoc());
  r.macro = macro_of(named->getLocation(), r.at);
  r.whole =
      r.macro.empty() ? stretch_of(context_, a_.found, named->getSourceRange()) : spelled_at(context_, a_.found, named->getLocation());
  releases_[named] = r;
}

}  // namespace coalesce
