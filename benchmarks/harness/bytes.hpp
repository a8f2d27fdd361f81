// Sizes in bytes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuheap::bench {

// "4096", "64KiB", "64K", "512 MiB", "8GiB". Throws usage_error, naming `what`.
[[nodiscard]] std::uint64_t parse_bytes(std::string_view what, std::string_view text);

}  // namespace gpuheap::bench
