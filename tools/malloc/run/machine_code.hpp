// Reads the symbol table of a cubin. The bytes are not trusted: each offset and size is checked against the length of the input.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

struct machine_code {
  std::set<std::string, std::less<>> asked;                     // undefined functions, which the driver or a linker supplies
  std::map<std::string, std::uint64_t, std::less<>> variables;  // of any visibility, with their sizes in bytes
  std::set<std::string, std::less<>> kernels;
  std::map<std::string, std::uint32_t, std::less<>> registers;  // per thread, for kernels and functions; those of callees are included
  std::set<std::string, std::less<>> functions;                 // defined here, kernels included
};

/// @return The size in bytes of the ELF file at `image`, by its header and its tables; 0 if the first 64 bytes are no ELF header.
[[nodiscard]] std::uint64_t elf_bytes(void const* image);

/// @return The contents of the symbol table; nothing if the table is missing or damaged.
[[nodiscard]] std::optional<machine_code> read_machine_code(bytes_view elf);

/// @return Whether the code leaves a function of served_names undefined, for the driver to supply.
[[nodiscard]] bool asks_driver(machine_code const& code);

/// @return The highest number of registers per thread with which each kernel can still have blocks as large as before; 0 if no bound is
/// needed.
[[nodiscard]] std::uint32_t register_bound(machine_code const& linked, machine_code const& before);

/// @return "" if `linked` can replace `before`: it has every kernel, has every variable with the same size, and leaves no function of
///   served_names undefined. Otherwise one clause that names what is missing.
[[nodiscard]] std::string lack(machine_code const& linked, machine_code const& before);

}  // namespace gpuheap::unchanged
