// How far the values of a lowered function are the same in all threads, and where its threads may differ in what they reach.
//
// The function has been inlined into, so that each value has one definition. A value that is not understood counts as different.
#pragma once

#include "branches.hpp"
#include "facts.hpp"
#include "lower.hpp"

#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

#include <map>
#include <set>

namespace coalesce {

// The knowledge about a value, or about whether threads reach a block.
struct sameness {
  scope same_in = scope::grid;
  llvm::Instruction const* why = nullptr;  // the first that differs

  void add(sameness const& other) {
    if (other.same_in <= same_in) return;
    same_in = other.same_in;
    why = other.why;
  }
};

// The kind of a call, by its name.
struct callee {
  std::string name;             // qualified; of the machine's own instructions, as Clang's headers name them; empty: not known
  outside const* is = nullptr;  // null: no function that is declared only
  bool promises = false;        // it allocates, and its last argument is a promise that is not `false`
  bool defined = false;         // calls itself, or it would have been inlined
};
[[nodiscard]] callee callee_of(lowered const& code, llvm::CallBase const& call);
// Whether all threads of a group meet there, as a barrier's do.
[[nodiscard]] bool is_barrier(callee const& c, llvm::CallBase const& call, scope level);

class same_values {
 public:
  // `where`: what depends on which branch.
  same_values(lowered const& code, llvm::Function& f, branches const& where);

  [[nodiscard]] sameness of(llvm::Value const* v) const;
  // The sameness of reaching the block at all.
  [[nodiscard]] sameness control(llvm::BasicBlock const& block) const;
  // The variables of the function that a pointer may point to, if their addresses stay in it; `only`: to nothing else.
  [[nodiscard]] std::vector<llvm::Value const*> variables_behind(llvm::Value const* pointer, bool& only) const;

 private:
  void find_variables();
  void find_writers();
  [[nodiscard]] static bool stays_here(llvm::Value const* variable);
  void note_written(llvm::Value const* pointer);
  void visit(llvm::Instruction const& i);
  [[nodiscard]] sameness operands_of(llvm::Instruction const& i) const;
  [[nodiscard]] sameness loaded(llvm::Value const* pointer, llvm::Instruction const& i, bool is_volatile) const;
  sameness called(llvm::CallBase const& call);
  sameness called_outside(llvm::CallBase const& call, callee const& c);
  [[nodiscard]] llvm::Instruction const* only_definition(llvm::Value const* variable, llvm::Instruction const& at) const;
  [[nodiscard]] sameness written_by(llvm::Instruction const& definition) const;
  void write(llvm::Value const* pointer, sameness v, llvm::Instruction const& at);
  void branch(llvm::Instruction const& i);
  void raise(std::map<llvm::Value const*, sameness>& in, llvm::Value const* of, sameness const& to);

  lowered const& code_;
  llvm::Function& f_;
  branches const& where_;
  std::map<llvm::Value const*, sameness> values_, contents_;                     // contents: of variables whose address stays here
  std::map<llvm::Value const*, std::vector<llvm::Instruction const*>> writers_;  // of those variables
  std::set<llvm::Value const*> written_;                                         // parameters that something is written through
  std::map<llvm::Value const*, sameness> control_, joined_;                      // of blocks
  llvm::DominatorTree dominators_;
  bool changed_ = false;
};

}  // namespace coalesce
