// The real driver behind the wrappers: its functions, and the wrapper of each.
#pragma once

#include <cstddef>
#include <cstdint>

// Switches off the renaming of cuMemAlloc to cuMemAlloc_v2 and the like: the table of entry points names both.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>

#include "entry_table.hpp"
#include "tools/interposer/entry_points.hpp"

namespace gpuheap::interpose {

// A row of the table of entry points.
enum class row : std::uint16_t {
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) symbol,
  GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
      num
};
inline constexpr std::size_t num_rows = static_cast<std::size_t>(row::num);
static_assert(num_rows <= most_rows);

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
// Whether a null stream means the calling thread's own default stream.
[[nodiscard]] bool of_thread_stream(row which);

// The driver's own function of a row; null if the driver does not have it.
template <row Row>
[[nodiscard]] typename signature<Row>::type real() {
  return reinterpret_cast<typename signature<Row>::type>(real_address(static_cast<std::size_t>(Row)));
}

// Records the driver's version, and reports E11 if this driver lacks functions that its version should have. Called when a context is used;
// only the first call does anything.
void check_rows();

// Called after fork in the child process, whose trace has facts of its own.
void forget_rows_after_fork();

// Whether the primary context of a device exists; true if this driver cannot tell.
[[nodiscard]] bool primary_exists(CUdevice device);

// The ordinal of the current context's device, or -1.
[[nodiscard]] int current_device();

// The wrappers, by row. Defined in wrappers.cpp.
extern void* const wrappers[num_rows];

}  // namespace gpuheap::interpose
