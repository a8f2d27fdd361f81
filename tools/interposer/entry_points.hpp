// The way in which a library that LD_PRELOAD loads gets between a program and the CUDA driver: the functions that it wraps, how programs
// find them, and where the driver's own functions are. Two libraries are made of this, tools/host and tools/malloc/run; each has a table of
// entry points of its own.
#pragma once

#include <cstddef>
#include <span>

namespace gpuheap::interpose {

// The most rows that a table may have.
inline constexpr std::size_t most_rows = 256;

// A function of the driver that a library wraps.
struct entry_point {
  char const* symbol;  // as the driver exports it
  char const* base;    // as cuGetProcAddress is asked for it
  int version;         // what it is asked with
  bool per_thread;     // the flavour for per-thread default streams
};

// The facts that each library defines about itself.
struct interposed_library {
  std::span<entry_point const> rows;
  void* const* wrappers;            // one for each row
  bool (*on)();                     // whether this process is traced or served; otherwise the program gets the driver's functions
  void (*handed_out)(std::size_t);  // called when a program first gets the wrapper of a row
};
[[nodiscard]] interposed_library const& this_library();

// The driver's own function for a row, found once; nullptr where this driver lacks it, or is not loaded.
[[nodiscard]] void* real_address(std::size_t row);

// A function of the driver by its exported name; nullptr where this driver lacks it, or is not loaded.
[[nodiscard]] void* symbol_in_driver(char const* symbol);

// The linker's own dlsym, past this library's.
[[nodiscard]] void* linker_dlsym(void* handle, char const* name) noexcept;

// The wrapper to hand out in place of `address`, which the driver gave for `base`: the wrapper of the function at `address`, whatever
// version and flags were requested, or `address` itself if the table has no row for it.
[[nodiscard]] void* wrapper_for_lookup(char const* base, void* address);

// The wrapper for an exported symbol, which dlsym found at `address`, or `address` itself if the table has no row for it. nullptr if dlsym
// found only this library's own export, so that the program would have found nothing.
[[nodiscard]] void* wrapper_for_symbol(char const* symbol, void* address);

}  // namespace gpuheap::interpose
