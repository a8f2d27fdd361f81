// The options that a program gives the PTX compiler when it loads code.
#pragma once

#include <string>

#include "driver.hpp"

namespace gpuheap::unchanged {

/// The options of one load, as the program gave them.
struct jit_options {
  unsigned num = 0;
  CUjit_option* names = nullptr;
  void** values = nullptr;

  /// @return The options that change code, in the spelling of ptxas, each with a space before it: bounds on registers, the level of
  ///   optimisation, debug and line information.
  [[nodiscard]] std::string words() const;
  /// Sets the values that the compiler returns through options, as after a load that compiled nothing: empty logs and a time of 0.
  void answer_nothing() const;
};

}  // namespace gpuheap::unchanged
