// Baselines: types that hand out addresses without managing the memory behind them, as bounds to compare allocators with.
#pragma once

namespace gpuheap::bench {

// A baseline models the allocator concept and has `static constexpr bool is_baseline = true`.
template <class A>
[[nodiscard]] constexpr bool is_baseline() {
  if constexpr (requires { A::is_baseline; }) {
    return A::is_baseline;
  } else {
    return false;
  }
}

// The name of A in rows, pictures and arguments.
template <class A>
[[nodiscard]] constexpr char const* name_in_tables() {
  return A::traits.name;
}

// A baseline whose addresses are not memory of their caller's own: they may overlap, and nothing may be written there. Says so by
// `static constexpr bool hands_out_memory = false`. Compiled for the cases that take such baselines only, and its addresses are not
// checked.
template <class A>
[[nodiscard]] constexpr bool hands_out_memory() {
  if constexpr (requires { A::hands_out_memory; }) {
    return A::hands_out_memory;
  } else {
    return true;
  }
}

// A baseline whose memory is allocated by the host, for all threads of a kernel at once: no thread can ask it. Says so by
// `static constexpr bool allocates_from_host = true`. Compiled for the cases that take such baselines only.
template <class A>
[[nodiscard]] constexpr bool allocates_from_host() {
  if constexpr (requires { A::allocates_from_host; }) {
    return A::allocates_from_host;
  } else {
    return false;
  }
}

}  // namespace gpuheap::bench
