// The interception of a program's calls of the CUDA driver, by a library that LD_PRELOAD loads: the functions that the library wraps, the
// ways in which programs find them, and the driver's own functions. Two libraries use this code, tools/host and tools/malloc/run. Each has
// a table of entry points of its own.
#pragma once

#include <cstddef>
#include <span>

namespace gpuheap::interpose {

// The most rows that a table may have.
inline constexpr std::size_t most_rows = 256;

// A function of the driver that a library wraps.
struct entry_point {
  char const* symbol;  // the name that the driver exports
  char const* base;    // the name for cuGetProcAddress
  int version;         // the version for cuGetProcAddress
  bool per_thread;     // whether it is the form for per-thread default streams
};

// The facts that each library defines about itself.
struct interposed_library {
  std::span<entry_point const> rows;
  void* const* wrappers;            // one for each row
  bool (*on)();                     // whether this process is traced or served; otherwise the program gets the driver's functions
  void (*handed_out)(std::size_t);  // called when a program first gets the wrapper of a row
};
[[nodiscard]] interposed_library const& this_library();

// The driver's own function for a row, kept once it has been found. nullptr if this driver does not have it, or is not loaded yet.
[[nodiscard]] void* real_address(std::size_t row);

// A function of the driver by its exported name. nullptr if this driver does not have it, or is not loaded.
[[nodiscard]] void* symbol_in_driver(char const* symbol);

// The C library's dlsym, which this library's own dlsym hides.
[[nodiscard]] void* linker_dlsym(void* handle, char const* name) noexcept;

// The wrapper to hand out in place of `address`, which the driver gave for `base`: the wrapper of the function at `address`, whatever
// version and flags were requested, or `address` itself if the table has no row for it.
[[nodiscard]] void* wrapper_for_lookup(char const* base, void* address);

// The wrapper for an exported symbol, which dlsym found at `address`, or `address` itself if the table has no row for it. nullptr if dlsym
// found this library's own export and the driver has no such symbol, or is not loaded: without this library dlsym would have found nothing.
[[nodiscard]] void* wrapper_for_symbol(char const* symbol, void* address);

}  // namespace gpuheap::interpose
