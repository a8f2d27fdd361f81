// Device code as LLVM has it: the files of a program as one module, in which every call that can be followed is inlined and every variable
// that can be is a value.
#pragma once

#include "frontend.hpp"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

// The function that stands in a root where a thread ends by `return`.
inline constexpr char const* thread_ends = "gpuheap_thread_ends";

// A function that the module declares only.
struct outside {
  std::string name;          // qualified, without parameters
  std::set<unsigned> reads;  // parameters whose target it takes as constant
  bool users = false;        // of the user's code: anything may happen in it
  bool allocates = false;    // takes a promise as its last argument
};

struct lowered {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;  // null after errors
  std::map<std::string, outside> outsides;
  std::set<std::string> roots;  // functions that every thread calls
  std::vector<diagnostic> errors;
};

// Lowers `sources`, with `texts` in place of files.
[[nodiscard]] lowered lower(options const& asked, std::vector<std::string> const& sources, std::map<std::string, std::string> const& texts,
                            language in);

}  // namespace coalesce
