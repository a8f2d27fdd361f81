#include "driver.hpp"

#include <array>
#include <atomic>
#include <string>

#include "messages.hpp"
#include "settings.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

constexpr std::array<entry_point, num_rows> rows{{
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) {#symbol, #base, version, sizeof(#suffix) > 1},
    GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
}};

constinit std::atomic<bool> rows_checked{false};

void counted(std::size_t) { count(counter::hooks); }

}  // namespace

interposed_library const& this_library() {
  static constexpr interposed_library library{rows, wrappers, [] { return configured().on; }, counted};
  return library;
}

bool of_thread_stream(row which) { return rows[static_cast<std::size_t>(which)].per_thread; }

char const* symbol_of(row which) { return rows[static_cast<std::size_t>(which)].symbol; }

void check_rows() {
  if (rows_checked.exchange(true)) return;
  auto const version_of = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(symbol_in_driver("cuDriverGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != CUDA_SUCCESS) return;
  append_fact("driver", std::to_string(version));
  std::string missing;
  int num_missing = 0;
  for (std::size_t i = 0; i < num_rows; ++i) {
    if (rows[i].version > version || real_address(i) != nullptr) continue;
    missing += (num_missing++ == 0 ? "" : ", ") + std::string{rows[i].symbol};
  }
  if (num_missing > 0) {
    say("E11", std::to_string(num_missing) + " functions that a driver of version " + std::to_string(version) +
                   " should have were not found, and calls to them are not seen: " + missing);
  }
}

void forget_rows_after_fork() { rows_checked.store(false); }

bool primary_exists(CUdevice device) {
  static auto const ask = reinterpret_cast<PFN_cuDevicePrimaryCtxGetState_v7000>(symbol_in_driver("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 1;
  return ask == nullptr || ask(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

int current_device() {
  static auto const ask = reinterpret_cast<PFN_cuCtxGetDevice_v2000>(symbol_in_driver("cuCtxGetDevice"));
  CUdevice device = -1;
  return ask != nullptr && ask(&device) == CUDA_SUCCESS ? device : -1;
}

}  // namespace gpuheap::interpose
