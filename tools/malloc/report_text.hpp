// The text that GPUHEAP_STATS prints about a heap.
#pragma once

#include <string>
#include <vector>

#include "tools/malloc/provider.hpp"

namespace gpuheap::device_malloc {

/// Lines for the standard error, each of which begins with `head`; numbers that the allocator cannot tell are left out.
[[nodiscard]] std::string report_text(std::string const& head, char const* allocator, provider_report const& report,
                                      std::vector<provider_live> const& live);

/// One JSON object on one line, without a line feed: the member "gpuheap" with the value `what`, then the device, the allocator and the
/// numbers that the allocator can tell.
/// @param seconds the time since the program's first heap was made; a negative number: the report has no time
/// @param live the sizes of the blocks that are not freed; null: the report does not list them
[[nodiscard]] std::string report_json(char const* what, double seconds, int device, char const* name, char const* allocator,
                                      provider_report const& report, std::vector<provider_live> const* live);

/// One JSON object on one line in place of a sample or a report that failed: `what` is "no sample" or "no heap".
[[nodiscard]] std::string no_answer_json(char const* what, int device, char const* why);

/// The numbers of a sample as text: "2.0 s: 12 MiB of 64 MiB held, 10 live blocks of 1.5 KiB in all, 0 requests found no memory".
[[nodiscard]] std::string sample_text(double seconds, provider_report const& report);

}  // namespace gpuheap::device_malloc
