// PTX as text: which functions it asks the driver for, and the same text with other names for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/malloc/provider.hpp"

namespace gpuheap::unchanged {

/// A function that the driver supplies to device code, and what stands in for it.
struct served_name {
  std::string_view from;
  std::string_view to;
};

/// The names that ptxas and the driver treat as system calls. nvcc makes `__cuda_syscall_aligned_malloc` of an over-aligned new.
inline constexpr served_name served_names[] = {
    {"malloc", device_malloc::malloc_name},
    {"free", device_malloc::free_name},
    {"__cuda_syscall_aligned_malloc", device_malloc::aligned_malloc_name},
};

/// How a module uses one of served_names.
enum class name_use {
  none,
  asked,    // declared .extern: the driver supplies it
  defined,  // the module has a function of that name: it is the program's own
};

struct ptx_facts {
  std::uint32_t architecture = 0;  // 90 of .target sm_90
  char family = 0;                 // 'a' of sm_90a, 'f' of sm_100f, 0
  bool is_64_bit = false;
  name_use uses[std::size(served_names)] = {};

  [[nodiscard]] bool asks() const;
  [[nodiscard]] bool defines() const;
};

/// @return What the text says of itself; nothing if it has no .target.
[[nodiscard]] std::optional<ptx_facts> facts_of(std::string_view ptx);

/// @return Whether a device of `architecture` can run the text.
[[nodiscard]] bool runs_on(ptx_facts const& facts, std::uint32_t architecture);

/// @return The text with every identifier of served_names replaced. Comments, strings, directives and registers keep theirs.
[[nodiscard]] std::string renamed(std::string_view ptx);

}  // namespace gpuheap::unchanged
