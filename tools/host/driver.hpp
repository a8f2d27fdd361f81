// The real driver behind the wrappers: its functions, and which wrapper stands for which of them.
#pragma once

#include <cstddef>
#include <cstdint>

// Without the renaming of cuMemAlloc to cuMemAlloc_v2 and its like: the table of entry points names both.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>

#include "entry_table.hpp"

namespace gpuheap::interpose {

// A row of the table of entry points.
enum class row : std::uint16_t {
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) symbol,
  GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
      num
};
inline constexpr std::size_t num_rows = static_cast<std::size_t>(row::num);

// The C signature of a row, as a pointer type.
template <row Row>
struct signature;
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) \
  template <>                                               \
  struct signature<row::symbol> {                           \
    using type = PFN_##base##_v##version##suffix;           \
  };
GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW

[[nodiscard]] char const* symbol_of(row which);
// Whether a null stream means the calling thread's own.
[[nodiscard]] bool of_thread_stream(row which);

// The driver's own function for a row, found once; nullptr where this driver lacks it, or is not loaded.
[[nodiscard]] void* real_address(row which);
template <row Row>
[[nodiscard]] typename signature<Row>::type real() {
  return reinterpret_cast<typename signature<Row>::type>(real_address(Row));
}

// A function of the driver that the table has no row for; nullptr where this driver lacks it, or is not loaded.
[[nodiscard]] void* symbol_in_driver(char const* symbol);

// The linker's own dlsym, past this library's.
[[nodiscard]] void* linker_dlsym(void* handle, char const* name) noexcept;

// The wrapper to hand out in place of `address`, which the driver gave for `base`: the one for the very function at `address`, whatever
// version and flags were asked for; `address` itself where the table has no row for it.
[[nodiscard]] void* wrapper_for_lookup(char const* base, void* address);

// The wrapper for an exported symbol, which dlsym found at `address`; `address` itself where the table has no row for it. nullptr where
// dlsym found but this library's own export and the program would have found nothing.
[[nodiscard]] void* wrapper_for_symbol(char const* symbol, void* address);

// Records the driver's version, and says E11 if this driver lacks functions that its version should have: once. Called when a context is
// first used.
void check_rows();

// In the child after fork: its trace says so itself.
void forget_rows_after_fork();

// Whether the primary context of a device exists; true where this driver cannot tell.
[[nodiscard]] bool primary_exists(CUdevice device);

// The ordinal of the current context's device, or -1.
[[nodiscard]] int current_device();

// The wrappers, by row. Defined in wrappers.cpp.
extern void* const wrappers[num_rows];

}  // namespace gpuheap::interpose
