// Lowers device code to LLVM: the files of a program become one module. Calls of known functions are inlined and variables become values
// where that is possible.
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

// The name of the function that a root calls at a `return`, where a thread ends.
inline constexpr char const* thread_ends = "gpuheap_thread_ends";

// A function that the module only declares.
struct outside {
  std::string name;          // qualified, without parameters
  std::set<unsigned> reads;  // pointer parameters whose target is const
  bool users = false;        // a function of the user's code, which may have any effect
  bool allocates = false;    // an allocation whose last argument is a promise (verify.hpp)
};

struct lowered {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;  // null after errors
  std::map<std::string, outside> outsides;
  std::set<std::string> roots;  // kernels, and functions of --root: every thread calls them
  std::vector<diagnostic> errors;
};

// Lowers `sources`. `texts` holds contents that replace those of files.
[[nodiscard]] lowered lower(options const& asked, std::vector<std::string> const& sources, std::map<std::string, std::string> const& texts,
                            language in);

}  // namespace coalesce
