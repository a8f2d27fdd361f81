// The host backend of program.hpp. The program value is a variable, block storage is a map from block numbers, and all code counts as
// device code.
#pragma once

#include <gpuheap/simt/host/warp.hpp>

#include <map>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
template <class T>
inline T the_program_value{};
}  // namespace detail

// set() sets program_value<T>(). Host, while no kernel runs that reads the value.
template <class T>
struct program_values {
  static void set(T const& value) { detail::the_program_value<T> = value; }
};

// The value that the host has set; T{} before the first set().
template <class T>
[[nodiscard]] inline T const& program_value() {
  return detail::the_program_value<T>;
}
// Nothing to register: all translation units share one variable.
template <class T>
inline bool has_program_value() {
  return true;
}

// One T for each thread block. Each thread of the operating system has a map of its own. Such a thread runs one launch at a time, and a
// block stays on its thread.
template <class T>
[[nodiscard]] inline T& block_storage() {
  thread_local std::map<unsigned, T> storage;
  return storage[block_id()];
}

// Calls Side::on_device(arguments...), since all code counts as device code.
template <class Side, class... Args>
inline auto by_side(Args... arguments) {
  return Side::on_device(arguments...);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
