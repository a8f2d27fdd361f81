// What a cubin says in its symbol table. Reads bytes alone, and believes no number before it is checked against the bytes there are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "fat_binary.hpp"

namespace gpuheap::unchanged {

struct machine_code {
  std::set<std::string, std::less<>> asked;                     // functions that the driver or a linker is to supply
  std::map<std::string, std::uint64_t, std::less<>> variables;  // of any visibility, with their bytes
  std::set<std::string, std::less<>> kernels;
  std::map<std::string, std::uint32_t, std::less<>> registers;  // of kernels and functions: a thread's, all that it calls included
  std::set<std::string, std::less<>> functions;                 // defined, kernels included
};

/// @return The bytes of an ELF file that lies in memory, by its head and its section table; 0 if `head`, its first 64 bytes, is none.
[[nodiscard]] std::uint64_t elf_bytes(void const* image);

/// @return What the symbol table says; nothing if there is none, or it is damaged.
[[nodiscard]] std::optional<machine_code> read_machine_code(bytes_view elf);

/// @return Whether code asks the driver for a function of served_names.
[[nodiscard]] bool asks_driver(machine_code const& code);

/// @return The bound on registers under which no kernel starts with fewer threads in a block than before; 0 if none does.
[[nodiscard]] std::uint32_t register_bound(machine_code const& linked, machine_code const& before);

/// @return "" if `linked` can stand for `before`: it has every kernel and every variable, of the same size, and asks the driver for none of
///   served_names. Otherwise one clause that says what it lacks.
[[nodiscard]] std::string lack(machine_code const& linked, machine_code const& before);

}  // namespace gpuheap::unchanged
