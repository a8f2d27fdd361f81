// The two compressions of fat binaries, by means of the system's libraries: Debian's base has libzstd.so.1 and liblz4.so.1, without their
// headers. They are loaded when the first entry needs them, so that a program without such an entry does not load them.
#pragma once

#include <string>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

/// @return Whether `from` unpacked to exactly the bytes of `out`; otherwise one clause is in `why`.
[[nodiscard]] bool decompress(compression how, bytes_view from, std::span<std::byte> out, std::string* why);

}  // namespace gpuheap::unchanged
