// The allocator that serves: its library, and the heaps that the service keeps of it, one for each context.
#pragma once

#include "driver.hpp"
#include "link.hpp"
#include "tools/malloc/service.hpp"

namespace gpuheap::unchanged {

/// @return The allocator's table, loaded once; null where it cannot serve, which is told.
[[nodiscard]] device_malloc::provider const* provider();

/// @return What links are made with. Only where there is a provider.
[[nodiscard]] serving_code const& serving();

/// @return The heaps. Only where there is a provider.
[[nodiscard]] device_malloc::service& heaps();

}  // namespace gpuheap::unchanged
