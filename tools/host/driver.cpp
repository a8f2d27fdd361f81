#include "driver.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <unordered_map>

#include "messages.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

struct description {
  char const* symbol;
  char const* base;
  int version;
  bool per_thread;
};

constexpr std::array<description, num_rows> rows{{
#define GPUHEAP_ROW(symbol, base, version, suffix, handler) {#symbol, #base, version, sizeof(#suffix) > 1},
    GPUHEAP_ENTRY_POINTS(GPUHEAP_ROW)
#undef GPUHEAP_ROW
}};

constinit std::array<std::atomic<void*>, num_rows> addresses{};
constinit std::array<std::atomic<bool>, num_rows> handed_out{};
constinit std::atomic<bool> rows_checked{false};

using by_name = std::unordered_multimap<std::string_view, row>;

by_name const& rows_by(char const* description::*name) {
  auto const index = [](char const* description::*key) {
    auto* const made = new by_name;
    for (std::size_t i = 0; i < num_rows; ++i) made->emplace(rows[i].*key, static_cast<row>(i));
    return made;
  };
  static by_name const* const symbols = index(&description::symbol);
  static by_name const* const bases = index(&description::base);
  return name == &description::symbol ? *symbols : *bases;
}

void* driver_library() {
  // Never loads it: a program without CUDA stays one.
  static constinit std::atomic<void*> kept{nullptr};
  void* library = kept.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    kept.store(library, std::memory_order_release);
  }
  return library;
}

void* find(row which) {
  description const& wanted = rows[static_cast<std::size_t>(which)];
  static auto const look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(symbol_in_driver("cuGetProcAddress_v2"));
  if (look_up != nullptr) {
    void* found = nullptr;
    cuuint64_t const flags = wanted.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    if (look_up(wanted.base, &found, wanted.version, flags, nullptr) == CUDA_SUCCESS && found != nullptr) return found;
  }
  return symbol_in_driver(wanted.symbol);
}

void* handed(row which) {
  // relaxed: counted once; nothing is read by it.
  if (!handed_out[static_cast<std::size_t>(which)].exchange(true, std::memory_order_relaxed)) count(counter::hooks);
  return wrappers[static_cast<std::size_t>(which)];
}

}  // namespace

void* symbol_in_driver(char const* symbol) {
  void* const library = driver_library();
  return library == nullptr ? nullptr : linker_dlsym(library, symbol);
}

bool of_thread_stream(row which) { return rows[static_cast<std::size_t>(which)].per_thread; }

char const* symbol_of(row which) { return rows[static_cast<std::size_t>(which)].symbol; }

void* real_address(row which) {
  auto& kept = addresses[static_cast<std::size_t>(which)];
  void* address = kept.load(std::memory_order_acquire);
  if (address == nullptr) {
    address = find(which);
    kept.store(address, std::memory_order_release);
  }
  return address;
}

void* linker_dlsym(void* handle, char const* name) noexcept {
  using function = void* (*)(void*, char const*) noexcept;  // so that the last call is a jump
  static function const original = [] {
    void* found = nullptr;
    for (char const* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
      if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", version);
    }
    return reinterpret_cast<function>(found);
  }();
  return original(handle, name);
}

void* wrapper_for_lookup(char const* base, void* address) {
  auto const [first, last] = rows_by(&description::base).equal_range(base);
  for (auto entry = first; entry != last; ++entry) {
    if (real_address(entry->second) == address) return handed(entry->second);
  }
  return address;
}

void* wrapper_for_symbol(char const* symbol, void* address) {
  auto const entry = rows_by(&description::symbol).find(symbol);
  if (entry == rows_by(&description::symbol).end()) return address;
  void* const wrapper = wrappers[static_cast<std::size_t>(entry->second)];
  if (address == wrapper) {
    // The search went by the global scope and met this library first: what the program would have found without it decides.
    if (symbol_in_driver(symbol) == nullptr) return nullptr;
  }
  return handed(entry->second);
}

void check_rows() {
  if (rows_checked.exchange(true)) return;
  auto const version_of = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(symbol_in_driver("cuDriverGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != CUDA_SUCCESS) return;
  append_fact("driver", std::to_string(version));
  std::string missing;
  int num_missing = 0;
  for (std::size_t i = 0; i < num_rows; ++i) {
    if (rows[i].version > version || real_address(static_cast<row>(i)) != nullptr) continue;
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
