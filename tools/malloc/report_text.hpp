// The text that GPUHEAP_STATS prints about a heap.
#pragma once

#include <string>
#include <vector>

#include "tools/malloc/provider.hpp"

namespace gpuheap::device_malloc {

/// Lines for the standard error, each of which begins with `head`; what the allocator does not tell is left out.
[[nodiscard]] std::string report_text(std::string const& head, char const* allocator, provider_report const& report,
                                      std::vector<provider_live> const& live);

}  // namespace gpuheap::device_malloc
