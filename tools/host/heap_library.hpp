// The library of the allocator that the mode heap:<name> serves from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "block_source.hpp"

namespace gpuheap::interpose {

// A heap of that allocator in [base, base + bytes), memory of the current context's device. The library is loaded by the first call of the
// process. nullptr: `why` says what failed. One call at a time.
[[nodiscard]] std::unique_ptr<block_source> make_heap(std::uint64_t base, std::uint64_t bytes, std::string* why);

}  // namespace gpuheap::interpose
