// The CUDA backend of program.hpp. Without relocatable device code, a translation unit cannot name a device variable of another one. So
// each translation unit has a variable of its own, and registers a function that sets it: program_values has the list of these functions.
#pragma once

#include <gpuheap/simt/config.hpp>
#include <gpuheap/simt/cuda/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

#if GPUHEAP_HAS_HOST
// set() sets program_value<T>() to `value` in all translation units. Host; one thread at a time, while no kernel runs that reads the value.
template <class T>
struct program_values {
  using setter = void (*)(T const& value);
  static std::vector<setter>& setters() {
    static std::vector<setter> all;
    return all;
  }
  static void set(T const& value) {
    for (setter const s : setters()) s(value);
  }
};
#endif

#if defined(__CUDACC__)
namespace detail {
template <class T>
struct program_bytes {
  alignas(16) unsigned char bytes[sizeof(T)];
};
// Internal linkage gives each translation unit a variable of its own.
template <class T>
static __constant__ program_bytes<T> program_value_here;
#if GPUHEAP_HAS_HOST
template <class T>
static void set_program_value_here(T const& value) {
  check(cudaMemcpyToSymbol(program_value_here<T>, &value, sizeof(T)), "copying the program's heap to the device");
}
#endif
}  // namespace detail

// The value that the host has set. Before the first set() all of its bytes are zero. Device; T is trivially copyable.
template <class T>
[[nodiscard]] static __device__ inline T const& program_value() {
  return *reinterpret_cast<T const*>(detail::program_value_here<T>.bytes);
}
#if GPUHEAP_HAS_HOST
// Registers this translation unit's setter with program_values<T>. Host; each translation unit calls this once, before main.
template <class T>
static bool has_program_value() {
  program_values<T>::setters().push_back(&detail::set_program_value_here<T>);
  return true;
}
#endif

// One T for each thread block of the kernel, in shared memory, not initialised. Device.
template <class T>
[[nodiscard]] __device__ T& block_storage() {
  __shared__ T storage;
  return storage;
}
#else
// A compiler without CUDA makes no device code, so nothing has to be set. These definitions only let the headers compile.
template <class T>
[[nodiscard]] T const& program_value() {
  static T const none{};
  return none;
}
template <class T>
bool has_program_value() {
  return true;
}
template <class T>
[[nodiscard]] T& block_storage() {
  static T storage;
  return storage;
}
#endif

// Calls Side::on_device(arguments...) in device code, and Side::on_host(arguments...) in host code.
template <class Side, class... Args>
GPUHEAP_HD inline auto by_side(Args... arguments) {
#if defined(__CUDA_ARCH__)
  return Side::on_device(arguments...);
#else
  return Side::on_host(arguments...);
#endif
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
