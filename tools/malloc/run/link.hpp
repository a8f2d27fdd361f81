// Links a program's PTX with the device code that serves malloc. The driver makes the link, because every machine that runs a CUDA program
// has it, it reads all PTX that this machine can run, and it makes code for exactly this device. nvJitLink belongs to the toolkit, which a
// machine that only runs programs need not have, and may be older than the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "choose.hpp"

namespace gpuheap::unchanged {

using linked_code = std::shared_ptr<std::vector<std::byte> const>;

/// The device code that serves malloc.
struct serving_code {
  bytes_view image;            // a fat binary of relocatable code
  std::string state_variable;  // the name of the variable with the heap's state, which the image defines
};

/// @param wanted A decision of verdict::link.
/// @return The machine code, which the caller keeps as long as the driver may read it; null, and the reason in `why`, if there is none.
/// @note Looks in this process, then in the cache on disk, and then links. A link that failed because of the code is not tried again. A
/// link takes seconds for large PTX, and needs a context.
[[nodiscard]] linked_code code_for(decision const& wanted, serving_code const& serving, std::uint32_t architecture, std::string* why);

struct link_counts {
  std::uint64_t linked = 0;  // links that the driver made
  std::uint64_t found = 0;   // links found in the cache on disk
  double seconds = 0;        // time that the driver took for its links
};
[[nodiscard]] link_counts counts_of_links();

}  // namespace gpuheap::unchanged
