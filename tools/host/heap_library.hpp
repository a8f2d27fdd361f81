// The library of the allocator that serves the mode heap:<name>.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "block_source.hpp"

namespace gpuheap::interpose {

// Makes a heap of that allocator in [base, base + bytes), memory of the current context's device. The first call of the process loads the
// library. Returns nullptr on failure, with the reason in `why`. One call at a time.
[[nodiscard]] std::unique_ptr<block_source> make_heap(std::uint64_t base, std::uint64_t bytes, std::string* why);

}  // namespace gpuheap::interpose
