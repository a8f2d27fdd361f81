// Links a program's PTX with the device code that serves malloc. The driver does it: it is there wherever a CUDA program runs, reads all
// PTX that this machine can run, and makes code for exactly this device. (nvJitLink belongs to the toolkit, which a machine that only runs
// programs lacks; and it may be older than the driver.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "choose.hpp"

namespace gpuheap::unchanged {

using linked_code = std::shared_ptr<std::vector<std::byte> const>;

/// The device code that serves.
struct serving_code {
  bytes_view image;            // a fat binary of relocatable code
  std::string state_variable;  // that it defines
};

/// @param wanted A decision of verdict::link.
/// @return The machine code, which the caller keeps as long as the driver may read it; null, and one clause in `why`, if there is none.
/// @note Finds it in this process, then in the cache on disk, then links: that takes seconds for large PTX, and a context.
[[nodiscard]] linked_code code_for(decision const& wanted, serving_code const& serving, std::uint32_t architecture, std::string* why);

struct link_counts {
  std::uint64_t linked = 0;  // by the driver
  std::uint64_t found = 0;   // in the cache on disk
  double seconds = 0;        // that the driver took
};
[[nodiscard]] link_counts counts_of_links();

}  // namespace gpuheap::unchanged
