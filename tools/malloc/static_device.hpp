// The functions of libgpuheap_malloc.a's device part that its host part calls.
#pragma once

#include "tools/malloc/provider.hpp"

namespace gpuheap::device_malloc {

/// The table of the allocator that the library is built with. The table has no image, since the library's device code is linked with the
/// program's.
provider const& static_provider();

/// Writes a heap's state to where the program's kernels read it, in the current context. Waits only for that write. Returns whether it
/// succeeded.
bool write_static_state(void const* state_bytes);

}  // namespace gpuheap::device_malloc
