// Finds the group of threads in which each value of a lowered function is the same, and the blocks that only some threads may reach.
//
// Lowering has inlined calls and turned variables into values, so each value has one definition. A value that is not understood counts as
// different.
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
  llvm::Instruction const* why = nullptr;  // the instruction at which the difference begins

  void add(sameness const& other) {
    if (other.same_in <= same_in) return;
    same_in = other.same_in;
    why = other.why;
  }
};

// The facts about the function of a call.
struct callee {
  std::string name;             // qualified; for an intrinsic, its name in Clang's headers; empty: not known
  outside const* is = nullptr;  // null unless the module only declares the function
  bool promises = false;        // it allocates, and its last argument is a promise that is not `false`
  bool defined = false;         // it has a body, and so is recursive: all other functions with a body have been inlined
};
[[nodiscard]] callee callee_of(lowered const& code, llvm::CallBase const& call);
// Whether all threads of a group wait for each other in the call, as at a barrier.
[[nodiscard]] bool is_barrier(callee const& c, llvm::CallBase const& call, scope level);

class same_values {
 public:
  // `where`: the blocks that depend on each branch.
  same_values(lowered const& code, llvm::Function& f, branches const& where);

  [[nodiscard]] sameness of(llvm::Value const* v) const;
  // The group of threads that reach the block together.
  [[nodiscard]] sameness control(llvm::BasicBlock const& block) const;
  // The function's variables to which a pointer may point, if their addresses do not leave the function. `only`: it points to nothing else.
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
  std::map<llvm::Value const*, sameness> values_, contents_;  // of values; of the contents of variables whose address stays in the function
  std::map<llvm::Value const*, std::vector<llvm::Instruction const*>> writers_;  // by such a variable
  std::set<llvm::Value const*> written_;                                         // objects to which something may be written
  std::map<llvm::Value const*, sameness> control_, joined_;  // by block: the group that reaches it together; the group of its phi nodes
  llvm::DominatorTree dominators_;
  bool changed_ = false;
};

}  // namespace coalesce
