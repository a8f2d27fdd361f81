// The image that a program gives to the double's cuModuleLoadData for a kernel or a variable of its own: functions of the CPU, and memory
// of the program.
#pragma once

#include <cstddef>

namespace driver_double {

inline constexpr char module_mark[16] = "double's module";

struct launch_shape {
  unsigned grid[3];
  unsigned block[3];
};

struct module_image {
  char mark[16];     // module_mark
  char const* name;  // of the one thing that it holds
  // A kernel: what runs it, and what that gets.
  void (*run)(void const* kernel, launch_shape const& shape, void** parameters);
  void const* kernel;
  // Or a variable.
  void* variable;
  std::size_t variable_bytes;
};

}  // namespace driver_double
