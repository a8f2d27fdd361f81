// PTX as text: the functions that it asks the driver for, and the text with other names for these functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/malloc/provider.hpp"

namespace gpuheap::unchanged {

/// The name of a function that the driver supplies to device code, and the names of its replacements. All parameters and results have 64
/// bits.
struct served_name {
  std::string_view from;
  std::string_view to;
  std::string_view at;  // the replacement that takes the number of the caller's place too, as the last parameter
  unsigned parameters;  // of `from` and `to`
  bool has_result;
};

/// The names that ptxas and the driver treat as system calls. nvcc makes `__cuda_syscall_aligned_malloc` of an over-aligned new.
inline constexpr served_name served_names[] = {
    {"malloc", device_malloc::malloc_name, device_malloc::malloc_at_name, 1, true},
    {"free", device_malloc::free_name, device_malloc::free_at_name, 1, false},
    {"__cuda_syscall_aligned_malloc", device_malloc::aligned_malloc_name, device_malloc::aligned_malloc_at_name, 2, true},
};
/// @return The row of a name; null: it is no name of served_names.
[[nodiscard]] served_name const* served(std::string_view word);

/// How a module uses one of served_names.
enum class name_use {
  none,
  asked,    // declared .extern: the driver supplies it
  defined,  // the module has a function of that name: it is the program's own
};

struct ptx_facts {
  std::uint32_t architecture = 0;  // 90 for .target sm_90
  char family = 0;                 // 'a' for sm_90a, 'f' for sm_100f, otherwise 0
  bool is_64_bit = false;
  name_use uses[std::size(served_names)] = {};

  // Whether the module asks the driver for one of served_names, and whether it defines one.
  [[nodiscard]] bool asks() const;
  [[nodiscard]] bool defines() const;
};

/// @return The facts that the text's directives give; nothing if it has no .target.
[[nodiscard]] std::optional<ptx_facts> facts_of(std::string_view ptx);

/// @return Whether a device of `architecture` can run the text.
[[nodiscard]] bool runs_on(ptx_facts const& facts, std::uint32_t architecture);

/// @return The text with every identifier of served_names replaced. Comments, strings, directives and registers stay as they are.
[[nodiscard]] std::string renamed(std::string_view ptx);

}  // namespace gpuheap::unchanged
