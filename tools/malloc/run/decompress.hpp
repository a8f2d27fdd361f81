// The two compressions of fat binaries. The system's libraries decompress: Debian's base has libzstd.so.1 and liblz4.so.1, without their
// headers. A library is loaded when the first entry needs it.
#pragma once

#include <string>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

/// @return Whether `from` unpacked to exactly the bytes of `out`; otherwise the reason is in `why`.
[[nodiscard]] bool decompress(compression how, bytes_view from, std::span<std::byte> out, std::string* why);

}  // namespace gpuheap::unchanged
