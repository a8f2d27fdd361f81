// The allocator that serves a program: its library, and the heaps that the service makes with it, one for each context.
#pragma once

#include "driver.hpp"
#include "link.hpp"
#include "tools/malloc/service.hpp"

namespace gpuheap::unchanged {

/// @return The allocator's table, loaded once; null if the allocator cannot serve, after a message.
[[nodiscard]] device_malloc::provider const* provider();

/// @return The code with which programs are linked. Call it only if there is a provider.
[[nodiscard]] serving_code const& serving();

/// @return The driver's functions, for the heaps and for contexts.hpp. Called once the program has loaded the driver.
[[nodiscard]] device_malloc::driver_calls const& calls_for_heaps();

/// @return The heaps. Call it only if there is a provider.
[[nodiscard]] device_malloc::service& heaps();

}  // namespace gpuheap::unchanged
