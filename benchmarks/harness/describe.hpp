// The output of --describe.
#pragma once

#include <string>

namespace gpuheap::bench {

// One JSON object: backend, device, allocators, baselines, cases, version, build. A machine without a usable device is described too, with
// what is wrong.
[[nodiscard]] std::string describe();

// Why times taken by this build mean little (no optimisation, a sanitizer), or "".
[[nodiscard]] std::string why_not_timed();

}  // namespace gpuheap::bench
