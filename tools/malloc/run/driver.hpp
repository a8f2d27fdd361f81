// The real driver: the functions for which the table of entry points has rows, and those that the library calls itself.
#pragma once

#include <cstddef>
#include <cstdint>

// Switches off the renaming of cuCtxDestroy to cuCtxDestroy_v2 and the like: the table of entry points names both.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>

#include "entry_table.hpp"
#include "tools/interposer/entry_points.hpp"

namespace gpuheap::unchanged {

// A row of the table of entry points.
enum class row : std::uint16_t {
#define GPUHEAP_RUN_ROW(symbol, base, version, suffix, handler) symbol,
  GPUHEAP_RUN_ENTRY_POINTS(GPUHEAP_RUN_ROW)
#undef GPUHEAP_RUN_ROW
      num
};
inline constexpr std::size_t num_rows = static_cast<std::size_t>(row::num);
static_assert(num_rows <= interpose::most_rows);

// The C signature of a row, as a pointer type.
template <row Row>
struct signature;
#define GPUHEAP_RUN_ROW(symbol, base, version, suffix, handler) \
  template <>                                                   \
  struct signature<row::symbol> {                               \
    using type = PFN_##base##_v##version##suffix;               \
  };
GPUHEAP_RUN_ENTRY_POINTS(GPUHEAP_RUN_ROW)
#undef GPUHEAP_RUN_ROW

// The driver's own function of a row; null if the driver does not have it.
template <row Row>
[[nodiscard]] typename signature<Row>::type real() {
  return reinterpret_cast<typename signature<Row>::type>(interpose::real_address(static_cast<std::size_t>(Row)));
}

// Whether a null stream means the calling thread's own default stream.
[[nodiscard]] bool for_thread_streams(row which);

// Functions that the library calls itself: member, exported symbol, version of its signature. All are older than CUDA 12.1.
#define GPUHEAP_RUN_CALLS(X)                                                                   \
  X(driver_version, cuDriverGetVersion, cuDriverGetVersion_v2020)                              \
  X(device_count, cuDeviceGetCount, cuDeviceGetCount_v2000)                                    \
  X(device_get, cuDeviceGet, cuDeviceGet_v2000)                                                \
  X(device_attribute, cuDeviceGetAttribute, cuDeviceGetAttribute_v2000)                        \
  X(primary_retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain_v7000)                  \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v11000)           \
  X(context_current, cuCtxGetCurrent, cuCtxGetCurrent_v4000)                                   \
  X(context_id, cuCtxGetId, cuCtxGetId_v12000)                                                 \
  X(context_limit, cuCtxGetLimit, cuCtxGetLimit_v3010)                                         \
  X(context_device, cuCtxGetDevice, cuCtxGetDevice_v2000)                                      \
  X(device_name, cuDeviceGetName, cuDeviceGetName_v2000)                                       \
  X(primary_state, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState_v7000)               \
  X(context_push, cuCtxPushCurrent_v2, cuCtxPushCurrent_v4000)                                 \
  X(context_pop, cuCtxPopCurrent_v2, cuCtxPopCurrent_v4000)                                    \
  X(link_create, cuLinkCreate_v2, cuLinkCreate_v6050)                                          \
  X(link_add, cuLinkAddData_v2, cuLinkAddData_v6050)                                           \
  X(link_complete, cuLinkComplete, cuLinkComplete_v5050)                                       \
  X(link_destroy, cuLinkDestroy, cuLinkDestroy_v5050)                                          \
  X(library_global, cuLibraryGetGlobal, cuLibraryGetGlobal_v12000)                             \
  X(module_global, cuModuleGetGlobal_v2, cuModuleGetGlobal_v3020)                              \
  X(copy_in_order, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v3020)                              \
  X(stream_create, cuStreamCreate, cuStreamCreate_v2000)                                       \
  X(stream_wait, cuStreamSynchronize, cuStreamSynchronize_v2000)                               \
  X(stream_destroy, cuStreamDestroy_v2, cuStreamDestroy_v4000)                                 \
  X(stream_captures, cuStreamIsCapturing, cuStreamIsCapturing_v10000)                          \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode_v10010) \
  X(event_create, cuEventCreate, cuEventCreate_v2000)                                          \
  X(event_record, cuEventRecord, cuEventRecord_v2000)                                          \
  X(event_query, cuEventQuery, cuEventQuery_v2000)                                             \
  X(event_wait, cuEventSynchronize, cuEventSynchronize_v2000)                                  \
  X(event_elapsed, cuEventElapsedTime, cuEventElapsedTime_v2000)

struct driver_calls {
#define GPUHEAP_RUN_CALL(member, symbol, type) PFN_##type member;
  GPUHEAP_RUN_CALLS(GPUHEAP_RUN_CALL)
#undef GPUHEAP_RUN_CALL
  char const* missing;  // a function that this driver does not have, or null
};

/// @return The driver's functions. Called once the program has loaded the driver.
[[nodiscard]] driver_calls const& driver();

/// @return The id of the current context, which no other context of the process ever has; 0 if none is current.
[[nodiscard]] std::uint64_t current_context();

/// While an object of this type lives, no call of this thread fails because of a stream capture of the program, and none invalidates a
/// capture.
class relaxed_capture {
 public:
  relaxed_capture();
  ~relaxed_capture();
  relaxed_capture(relaxed_capture const&) = delete;
  relaxed_capture& operator=(relaxed_capture const&) = delete;

 private:
  CUstreamCaptureMode before_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // the mode to set, then the mode that the thread had
};

/// While an object of this type lives, a context is current: the program's, or else the primary one of the first device. If neither can be
/// had, there() is false.
class some_context {
 public:
  some_context();
  ~some_context();
  some_context(some_context const&) = delete;
  some_context& operator=(some_context const&) = delete;
  [[nodiscard]] bool there() const { return there_; }

 private:
  bool there_ = false;
  bool own_ = false;
  CUdevice device_ = 0;
};

/// @return The architecture of all devices, 90 for compute capability 9.0; if they differ or there are none, 0, and the reason in `why`.
[[nodiscard]] std::uint32_t architecture_of_devices(char const** why);

}  // namespace gpuheap::unchanged
