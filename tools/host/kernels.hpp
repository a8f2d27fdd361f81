// The names of kernels, recorded once for each handle.
#pragma once

#include <cstdint>

namespace gpuheap::interpose {

// Notes that a look-up returned this handle for this name.
void kernel_named(std::uint64_t handle, char const* name);

// Notes that a handle is launched, and asks the driver for its name if no look-up returned it.
void kernel_launched(std::uint64_t handle);

void forget_kernels_after_fork();

}  // namespace gpuheap::interpose
