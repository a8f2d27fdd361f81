#include "entry_points.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <unordered_map>

// Switches off the renaming of cuGetProcAddress to cuGetProcAddress_v2.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>

namespace gpuheap::interpose {

namespace {

constinit std::array<std::atomic<void*>, most_rows> addresses{};
constinit std::array<std::atomic<bool>, most_rows> handed_out{};

using by_name = std::unordered_multimap<std::string_view, std::size_t>;

by_name const& rows_by(char const* entry_point::*name) {
  auto const index = [](char const* entry_point::*key) {
    auto* const made = new by_name;
    auto const rows = this_library().rows;
    for (std::size_t i = 0; i < rows.size(); ++i) made->emplace(rows[i].*key, i);
    return made;
  };
  static by_name const* const symbols = index(&entry_point::symbol);
  static by_name const* const bases = index(&entry_point::base);
  return name == &entry_point::symbol ? *symbols : *bases;
}

void* driver_library() {
  // This library never loads the driver: a program that does not use CUDA must not start to use it.
  static constinit std::atomic<void*> kept{nullptr};
  void* library = kept.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    kept.store(library, std::memory_order_release);
  }
  return library;
}

// nullptr, and looked up again by the next call, while the driver is not loaded.
PFN_cuGetProcAddress_v12000 driver_look_up() {
  static constinit std::atomic<void*> kept{nullptr};
  void* look_up = kept.load(std::memory_order_acquire);
  if (look_up == nullptr) {
    look_up = symbol_in_driver("cuGetProcAddress_v2");
    kept.store(look_up, std::memory_order_release);
  }
  return reinterpret_cast<PFN_cuGetProcAddress_v12000>(look_up);
}

void* find(entry_point const& wanted) {
  auto const look_up = driver_look_up();
  if (look_up != nullptr) {
    void* found = nullptr;
    cuuint64_t const flags = wanted.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    if (look_up(wanted.base, &found, wanted.version, flags, nullptr) == CUDA_SUCCESS && found != nullptr) return found;
  }
  return symbol_in_driver(wanted.symbol);
}

void* handed(std::size_t row) {
  // relaxed: the row is counted once, and no other data depend on it.
  if (!handed_out[row].exchange(true, std::memory_order_relaxed)) this_library().handed_out(row);
  return this_library().wrappers[row];
}

}  // namespace

void* symbol_in_driver(char const* symbol) {
  void* const library = driver_library();
  return library == nullptr ? nullptr : linker_dlsym(library, symbol);
}

void* real_address(std::size_t row) {
  auto& kept = addresses[row];
  void* address = kept.load(std::memory_order_acquire);
  if (address == nullptr) {
    address = find(this_library().rows[row]);
    kept.store(address, std::memory_order_release);
  }
  return address;
}

void* linker_dlsym(void* handle, char const* name) noexcept {
  using function = void* (*)(void*, char const*) noexcept;  // noexcept, so that the last call is a jump
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
  auto const [first, last] = rows_by(&entry_point::base).equal_range(base);
  for (auto entry = first; entry != last; ++entry) {
    if (real_address(entry->second) == address) return handed(entry->second);
  }
  return address;
}

void* wrapper_for_symbol(char const* symbol, void* address) {
  auto const entry = rows_by(&entry_point::symbol).find(symbol);
  if (entry == rows_by(&entry_point::symbol).end()) return address;
  if (address == this_library().wrappers[entry->second]) {
    // The search went through the global scope and met this library first. Without this library the program would have found the driver's
    // symbol, or nothing.
    if (symbol_in_driver(symbol) == nullptr) return nullptr;
  }
  return handed(entry->second);
}

}  // namespace gpuheap::interpose
