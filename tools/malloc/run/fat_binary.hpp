// The contents of the images that programs give the driver: a fat binary is a sequence of entries, each PTX or machine code for one
// architecture, plain or compressed. The functions only read bytes, do not use the driver, and check every length against the bytes that
// exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpuheap::unchanged {

using bytes_view = std::span<std::byte const>;

inline constexpr std::uint32_t wrapper_magic = 0x466243b1;     // nvcc's wrapper: a struct that points to a fat binary
inline constexpr std::uint32_t fat_binary_magic = 0xba55ed50;  // a fat binary: a header, then the entries
inline constexpr std::uint32_t elf_magic = 0x464c457f;

/// The largest decompressed size of one entry, in bytes and as a multiple of its compressed size. A larger one counts as damage.
inline constexpr std::uint64_t most_unpacked_bytes = std::uint64_t{1} << 31;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
// Clang defines the macro for libFuzzer, whose inputs of 4 KiB would each fill 16 MiB with zeros.
inline constexpr std::uint64_t most_unpacked_ratio = 16;
#else
inline constexpr std::uint64_t most_unpacked_ratio = 4096;
#endif

enum class entry_kind { ptx, machine_code, other };
enum class compression { none, lz4, zstandard };

struct fat_entry {
  entry_kind kind = entry_kind::other;
  std::uint32_t architecture = 0;  // 90 for sm_90, compute_90 and sm_90a
  compression packed = compression::none;
  std::uint64_t unpacked_bytes = 0;  // 0: not compressed
  bytes_view payload;
  std::string options;  // options that nvcc recorded for ptxas; "": none
};

/// @return The bytes that a fat binary says it has, its header included; 0 if `head`, its first 16 bytes, is not a header of a fat binary.
[[nodiscard]] std::uint64_t fat_binary_bytes(bytes_view head);

/// @param all A fat binary. Bytes after its own length are ignored.
/// @return Its entries, which point into `all`; nothing, and the reason in `why`, if it is damaged.
[[nodiscard]] std::optional<std::vector<fat_entry>> entries_of(bytes_view all, std::string* why);

/// @return The bytes of an entry as they were before compression; nothing, and the reason in `why`, if decompression fails.
[[nodiscard]] std::optional<std::vector<std::byte>> unpacked(fat_entry const& entry, std::string* why);

}  // namespace gpuheap::unchanged
