// The names of kernels, recorded once for each handle.
#pragma once

#include <cstdint>

namespace gpuheap::interpose {

// A look-up gave this handle for this name.
void kernel_named(std::uint64_t handle, char const* name);

// A handle is launched: asks the driver for its name if no look-up gave one.
void kernel_launched(std::uint64_t handle);

void forget_kernels_after_fork();

}  // namespace gpuheap::interpose
