// The host backend of program.hpp: a variable, storage by the block's number, and device code on either side.
#pragma once

#include <gpuheap/simt/host/warp.hpp>

#include <map>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

namespace detail {
template <class T>
inline T the_program_value{};
}  // namespace detail

// Sets program_value<T>(). Host; no kernel runs that reads it.
template <class T>
struct program_values {
  static void set(T const& value) { detail::the_program_value<T> = value; }
};

// The value that the host has set; T{} before.
template <class T>
[[nodiscard]] inline T const& program_value() {
  return detail::the_program_value<T>;
}
// The one variable is that of all translation units.
template <class T>
inline bool has_program_value() {
  return true;
}

// One T for each block number of each OS thread: a block runs on one of them, which has one launch at a time.
template <class T>
[[nodiscard]] inline T& block_storage() {
  thread_local std::map<unsigned, T> storage;
  return storage[block_id()];
}

// Device code: the simulator has no other.
template <class Side, class... Args>
inline auto by_side(Args... arguments) {
  return Side::on_device(arguments...);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
