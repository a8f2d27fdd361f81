// Finds the group of threads in which each value of a lowered function is the same, and the blocks that only some of them may reach.
//
// Calls have been inlined into the function, so each value has one definition. A value that is not understood counts as different.
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
  outside const* is = nullptr;  // null: it is not a function that is only declared
  bool promises = false;        // it allocates, and its last argument is a promise that is not `false`
  bool defined = false;         // it calls itself, since otherwise it would have been inlined
};
[[nodiscard]] callee callee_of(lowered const& code, llvm::CallBase const& call);
// Whether all threads of a group wait for each other there, as at a barrier.
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
  std::map<llvm::Value const*, sameness> values_, contents_;                     // contents: of variables whose address stays here
  std::map<llvm::Value const*, std::vector<llvm::Instruction const*>> writers_;  // of those variables
  std::set<llvm::Value const*> written_;                                         // parameters that something is written through
  std::map<llvm::Value const*, sameness> control_, joined_;                      // of blocks
  llvm::DominatorTree dominators_;
  bool changed_ = false;
};

}  // namespace coalesce
